__kernel void probe(__global float *x)
{
    x[get_global_id(0)] = sqrt(x[get_global_id(0)]);
}
