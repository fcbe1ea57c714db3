// SIMD vectors of float32, with sigmoid and hyperbolic tangent.
#pragma once

#include <cstdint>
#include <cstring>

namespace nn {

// Width of a register of the processor, and the rows and vectors of a product that fit into all registers together.
#if defined(__AVX512F__)
constexpr int WIDTH = 16, ROWS = 6, WIDE = 4;
#elif defined(__AVX2__)
constexpr int WIDTH = 8, ROWS = 3, WIDE = 4;
#else
constexpr int WIDTH = 4, ROWS = 3, WIDE = 4;
#endif
typedef float Floats __attribute__((vector_size(WIDTH * sizeof(float))));
typedef int32_t Bits __attribute__((vector_size(WIDTH * sizeof(int32_t))));

inline Floats load(const float *from) {
    Floats values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

inline void store(Floats values, float *to) { std::memcpy(to, &values, sizeof values); }

// power = 2^n and rest = exp(r) - 1 for x = n log(2) + r with |r| < 0.35; exp(x) - 1 = power * rest + (power - 1).
struct Exponential {
    Floats power, rest;

    explicit Exponential(Floats x) {
        const float to_integer = 12582912.0f;                // 1.5 * 2^23: adding it rounds to an integer
        Floats least = Floats{} - 87.0f, most = Floats{} + 87.0f;
        x = x < least ? least : x;                           // both comparisons are false for nan
        x = x > most ? most : x;
        const Floats shifted = x * 1.44269504f + to_integer;
        const Floats n = shifted - to_integer;
        Floats r = x - n * 0.693359375f;                     // log(2) in two parts: n times the first part is exact
        r = r + n * 2.12194440e-4f;
        Floats sum = Floats{} + 1.0f / 5040;
        const float inverse_factorials[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f};
        for (float factor : inverse_factorials) sum = sum * r + factor;
        rest = sum * (r * r) + r;
        Bits bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        bits = (bits << 23) + 0x3f800000;                    // the last bits contain n
        std::memcpy(&power, &bits, sizeof power);
    }
};

inline Floats sigmoid(Floats x) {
    const Exponential of(-x);
    return 1.0f / (of.power * of.rest + (of.power + 1.0f));
}

// Computed from exp(2x) - 1, which is accurate near 0, too.
inline Floats hyperbolic_tangent(Floats x) {
    const Exponential of(x + x);
    const Floats less_one = of.power * of.rest + (of.power - 1.0f);
    return less_one / (less_one + 2.0f);
}

}  // namespace nn
