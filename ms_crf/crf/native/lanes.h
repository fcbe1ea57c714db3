// SIMD vectors that hold one row of a batch in each lane, and the exponential function of such vectors.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace chain {

// As many lanes as fit into a register of the processor: compilers generate slow code for longer vectors.
#ifdef __AVX2__
constexpr int LANES = 4;
#else
constexpr int LANES = 2;
#endif
typedef double Lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t Marks __attribute__((vector_size(LANES * sizeof(int64_t))));   // -1 for true, 0 for false
typedef std::vector<Lanes> Buffer;                                             // C++17 aligns the elements

inline Lanes all(double value) { return Lanes{} + value; }

inline Lanes choose(Marks condition, Lanes yes, Lanes no) { return condition ? yes : no; }

// exp(x) for x <= 0, with a relative error of 3e-16; 0 below -708, where float64 would lose digits.
// x = n log(2) + r with |r| < 0.35, so that the terms of the series after r^13 are negligible.
inline Lanes exponential(Lanes x) {
    const double to_integer = 6755399441055744.0;        // 1.5 * 2^52: adding it rounds to an integer
    Lanes low = all(-708.0);
    Marks vanishes = x < low;
    x = choose(vanishes, low, x);
    Lanes shifted = x * 1.4426950408889634 + to_integer;
    Lanes n = shifted - to_integer;
    Lanes r = x - n * 6.93147180369123816490e-01;        // log(2) in two parts: n times the first part is exact
    r = r - n * 1.90821492927058770002e-10;
    Lanes sum = all(1.0 / 6227020800.0);
    const double inverse_factorials[] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
                                         1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
                                         1.0 / 6.0, 0.5, 1.0, 1.0};
    for (double factor : inverse_factorials) sum = sum * r + factor;
    Marks bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = bits << 52;                                   // 2^n: the last bits contain n
    Marks value;
    std::memcpy(&value, &sum, sizeof value);
    value = value + bits;
    std::memcpy(&sum, &value, sizeof sum);
    return choose(vanishes, Lanes{}, sum);
}

}  // namespace chain
