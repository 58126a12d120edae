#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer x_buffer { float x[]; };
void main()
{
    x[gl_GlobalInvocationID.x] = sqrt(x[gl_GlobalInvocationID.x]);
}
