#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "kernels/trial.kh"
