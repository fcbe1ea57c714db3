// Vectors of float32, and the sigmoid and the hyperbolic tangent of such vectors.
#pragma once

#include <cstdint>
#include <cstring>

namespace nn {

// As wide as the registers of the processor; rows and vectors of a product that their number lets it keep at once.
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

// 2^n and exp(r) - 1, whose product and sum give exp(x) and exp(x) - 1: x = n log(2) + r with |r| < 0.35.
struct Exponential {
    Floats power, rest;

    explicit Exponential(Floats x) {
        const float to_integer = 12582912.0f;                // 1.5 * 2^23: its last digits are integers
        Floats least = Floats{} - 87.0f, most = Floats{} + 87.0f;
        x = x < least ? least : x;                           // of nan both are false
        x = x > most ? most : x;
        const Floats shifted = x * 1.44269504f + to_integer;
        const Floats n = shifted - to_integer;
        Floats r = x - n * 0.693359375f;                     // log(2) in two parts: the first times n is exact
        r = r + n * 2.12194440e-4f;
        Floats sum = Floats{} + 1.0f / 5040;
        const float inverse_factorials[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f};
        for (float factor : inverse_factorials) sum = sum * r + factor;
        rest = sum * (r * r) + r;
        Bits bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        bits = (bits << 23) + 0x3f800000;                    // n stands in the last digits
        std::memcpy(&power, &bits, sizeof power);
    }
};

inline Floats sigmoid(Floats x) {
    const Exponential of(-x);
    return 1.0f / (of.power * of.rest + (of.power + 1.0f));
}

// By exp(2x) - 1, which is exact near 0, too.
inline Floats hyperbolic_tangent(Floats x) {
    const Exponential of(x + x);
    const Floats less_one = of.power * of.rest + (of.power - 1.0f);
    return less_one / (less_one + 2.0f);
}

}  // namespace nn
