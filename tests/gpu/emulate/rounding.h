// rounding - products, sums and quotients that are rounded each by itself, and never
// computed together.

#ifndef EMULATED_ROUNDING_H
#define EMULATED_ROUNDING_H

inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline double __dmul_rn(double a, double b)
{
    return a * b;
}

#endif
