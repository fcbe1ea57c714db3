// Products of float32 matrices that fit into the cache of a core.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "floats.h"

namespace nn {

// The second factor of a product, (depth, columns), stored in panels of a few vectors each. A panel is read in the
// order of memory. Additional columns that fill up the last vector are 0.
class Panels {
    int64_t depth, blocks, panels;
    std::vector<Floats> values;

   public:
    Panels(int64_t depth, int64_t columns)
        : depth(depth), blocks((columns + WIDTH - 1) / WIDTH), panels((blocks + WIDE - 1) / WIDE),
          values(depth * blocks) {}

    int64_t count() const { return panels; }
    int64_t width() const { return blocks; }                 // number of vectors in a row
    int64_t begin(int64_t panel) const { return blocks * panel / panels; }
    const Floats *of(int64_t panel) const { return values.data() + depth * begin(panel); }

    // Sets `count` columns of a row.
    void put(int64_t row, int64_t column, const float *from, int64_t count) {
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t first = begin(panel) * WIDTH, size = begin(panel + 1) * WIDTH - first;
            const int64_t start = std::max(column, first), end = std::min(column + count, first + size);
            if (start >= end) continue;
            float *to = reinterpret_cast<float *>(values.data() + depth * begin(panel)) + row * size + start - first;
            std::memcpy(to, from + start - column, (end - start) * sizeof(float));
        }
    }

    // Sets rows from a matrix (columns, rows), which is transposed.
    void put_turned(int64_t row, const float *from, int64_t rows, int64_t columns) {
        constexpr int64_t SEVERAL = 16;                      // rows that are read together from one cache line
        std::vector<float> turned(SEVERAL * columns);
        for (int64_t first = 0; first < rows; first += SEVERAL) {
            const int64_t count = std::min(SEVERAL, rows - first);
            for (int64_t column = 0; column < columns; column++) {
                for (int64_t k = 0; k < count; k++) turned[k * columns + column] = from[column * rows + first + k];
            }
            for (int64_t k = 0; k < count; k++) put(row + first + k, 0, turned.data() + k * columns, columns);
        }
    }
};

// The first factor: element (row, k) at row * row_step + k * step.
struct Factor {
    const float *values;
    int64_t row_step, step;
};

// Initial values to which a product is added; `of(row, block)` returns one vector. Zeros: 0. Sums: the values of an
// array. Rows: separate rows (columns,) at any address.
struct Zeros {
    Floats of(int64_t, int64_t) const { return Floats{}; }
};

struct Sums {
    const Floats *values;
    int64_t width;

    Floats of(int64_t row, int64_t block) const { return values[row * width + block]; }
};

struct Rows {
    const float *const *rows;
    int64_t columns;

    Floats of(int64_t row, int64_t block) const {
        const float *from = rows[row] + block * WIDTH;
        const int64_t count = columns - block * WIDTH;
        if (count >= WIDTH) return load(from);
        Floats values = {};
        std::memcpy(&values, from, count * sizeof(float));
        return values;
    }
};

// R rows and BLOCKS blocks of a product, beginning at `row` and `block`.
template <int R, int BLOCKS, class Begin>
inline void tile(const Factor &factor, const Floats *panel, int64_t depth, Floats *to, int64_t width,
                 const Begin &begin, int64_t row, int64_t block) {
    Floats sums[R][BLOCKS];
    for (int r = 0; r < R; r++) {
        for (int b = 0; b < BLOCKS; b++) sums[r][b] = begin.of(row + r, block + b);
    }
    const float *values = factor.values;
    for (int64_t k = 0; k < depth; k++, values += factor.step, panel += BLOCKS) {
#pragma GCC unroll 4
        for (int b = 0; b < BLOCKS; b++) {
            const Floats column = panel[b];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) sums[r][b] += column * values[r * factor.row_step];
        }
    }
    to += row * width + block;
    for (int r = 0; r < R; r++) {
        for (int b = 0; b < BLOCKS; b++) to[r * width + b] = sums[r][b];
    }
}

template <int R, int BLOCKS, class Begin>
inline void tiles(Factor factor, int64_t rows, const Floats *panel, int64_t depth, Floats *to, int64_t width,
                  const Begin &begin, int64_t row, int64_t block) {
    for (; rows - row >= R; row += R, factor.values += R * factor.row_step) {
        tile<R, BLOCKS>(factor, panel, depth, to, width, begin, row, block);
    }
    if constexpr (R > 1) tiles<R - 1, BLOCKS>(factor, rows, panel, depth, to, width, begin, row, block);
}

// to (rows, panels.width()) = begin + factor (rows, depth) * first `depth` rows of the panels.
template <class Begin>
inline void multiply(const Factor &factor, int64_t rows, const Panels &panels, int64_t depth, Floats *to,
                     const Begin &begin) {
    for (int64_t panel = 0; panel < panels.count(); panel++) {
        const int64_t first = panels.begin(panel), width = panels.width();
        const Floats *values = panels.of(panel);
        switch (panels.begin(panel + 1) - first) {
            case 1: tiles<ROWS, 1>(factor, rows, values, depth, to, width, begin, 0, first); break;
            case 2: tiles<ROWS, 2>(factor, rows, values, depth, to, width, begin, 0, first); break;
            case 3: tiles<ROWS, 3>(factor, rows, values, depth, to, width, begin, 0, first); break;
            default: tiles<ROWS, WIDE>(factor, rows, values, depth, to, width, begin, 0, first);
        }
    }
}

}  // namespace nn
