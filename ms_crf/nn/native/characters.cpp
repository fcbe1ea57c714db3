// Vectors of words from their characters, by a convolution of width 3, as an operator with its gradient.
//
// Inputs: vectors of characters (characters, dim), float32, the first of which is padding and counts as 0; filters
// (filters, 3 * dim), for the previous, the current and the next character; spellings (words, length), int32, ids of
// characters. The result for a word and a filter is the largest value of all windows, and at least 0. Windows reach
// from the window that ends with the first character to the window that begins with the last character.
//
// The product of a filter with a character at one of the three positions is computed once for each distinct character.
// A window is the sum of three such products.

#include "../../native/operator.h"
#include "products.h"

namespace characters {
namespace {

using namespace nn;
using native::ANY;
using native::Arguments;
using native::Type;

const int TABLE = 0, FILTERS = 1, SPELLINGS = 2, BY_OUTPUT = 3;
constexpr int PLACES = 3;
constexpr int64_t SHARE = 64;                                // smallest number of words for a thread

struct Call {
    int64_t characters, dim, filters, words, length;
    const float *table, *weights;
    std::vector<int64_t> ids;                                // distinct characters of the words; the first is padding
    std::vector<int32_t> spellings;                          // (words, length), indices of ids
    std::vector<Floats> parts;                               // (ids, 3, filters), for each position of the window

    explicit Call(const Arguments &arguments)
        : characters(arguments.shapes[TABLE][0]), dim(arguments.shapes[TABLE][1]),
          filters(arguments.shapes[FILTERS][0]), words(arguments.shapes[SPELLINGS][0]),
          length(arguments.shapes[SPELLINGS][1]), table(arguments.floats(TABLE)), weights(arguments.floats(FILTERS)),
          ids(1), spellings(words * length) {
        const int32_t *given = static_cast<const int32_t *>(arguments.data[SPELLINGS]);
        std::vector<int32_t> index(characters);
        for (size_t i = 0; i < spellings.size(); i++) {
            const int64_t id = given[i];
            if (id <= 0 || id >= characters) continue;       // padding, or an invalid id
            if (index[id] == 0) {
                index[id] = int32_t(ids.size());
                ids.push_back(id);
            }
            spellings[i] = index[id];
        }
        Panels columns(dim, PLACES * padded());
        std::vector<float> row(PLACES * padded());
        for (int64_t k = 0; k < dim; k++) {
            for (int64_t f = 0; f < filters; f++) {
                for (int place = 0; place < PLACES; place++) {
                    row[place * padded() + f] = weights[(f * PLACES + place) * dim + k];
                }
            }
            columns.put(k, 0, row.data(), row.size());
        }
        std::vector<float> vectors = vectors_of_ids();
        parts.resize(ids.size() * columns.width());
        multiply({vectors.data(), dim, 1}, ids.size(), columns, dim, parts.data(), Zeros{});
    }

    int64_t blocks() const { return (filters + WIDTH - 1) / WIDTH; }
    int64_t padded() const { return blocks() * WIDTH; }

    // (ids, dim), 0 for padding.
    std::vector<float> vectors_of_ids() const {
        std::vector<float> vectors(ids.size() * dim);
        for (size_t i = 1; i < ids.size(); i++) std::copy_n(table + ids[i] * dim, dim, vectors.data() + i * dim);
        return vectors;
    }

    // Indices of the three characters of a window of a word: previous, current, next; 0 outside of the word.
    void window(int64_t word, int64_t position, int32_t (&of)[PLACES]) const {
        for (int place = 0; place < PLACES; place++) {
            const int64_t at = position + place - 2;
            of[place] = at >= 0 && at < length ? spellings[word * length + at] : 0;
        }
    }

    // For one block of filters, the largest value of all windows of a word, at least 0. Calls use(larger, window) for
    // each window, where `larger` marks the filters whose value exceeds the values of all previous windows.
    template <class Use>
    Floats largest(int64_t word, int64_t block, const Use &use) const {
        Floats most = {};
        for (int64_t position = 0; position < length + 2; position++) {
            int32_t of[PLACES];
            window(word, position, of);
            if (of[0] == 0 && of[1] == 0 && of[2] == 0) continue;
            Floats sum = {};
            for (int place = 0; place < PLACES; place++) sum += parts[(of[place] * PLACES + place) * blocks() + block];
            use(sum > most, position);
            most = sum > most ? sum : most;
        }
        return most;
    }

    // Number of parts into which the words are divided, one for each thread that is worth starting.
    int64_t count_parts() const { return std::max(int64_t(1), std::min(int64_t(native::processors()), words / SHARE)); }

    // Calls work(part, first word, end of the words) for each part.
    template <class Work>
    void for_each_part(const Work &work) const {
        struct Nothing {};
        const int64_t count = count_parts();
        native::share_out<Nothing>(count, 4e5 * double(count), [&](size_t part, Nothing &) {
            work(part, words * int64_t(part) / count, words * int64_t(part + 1) / count);
        });
    }
};

// Output: (words, filters).
void words(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    call.for_each_part([&](size_t, int64_t first, int64_t end) {
        std::vector<Floats> row(call.blocks());
        for (int64_t word = first; word < end; word++) {
            for (int64_t block = 0; block < call.blocks(); block++) {
                row[block] = call.largest(word, block, [](Bits, int64_t) {});
            }
            std::memcpy(out + word * call.filters, row.data(), call.filters * sizeof(float));
        }
    });
}

// Gradients by the vectors of characters and by the filters. Own input: the gradient by the words (words, filters).
void gradients(const Arguments &arguments, float *out, int64_t) {
    const Call call(arguments);
    const float *by_words = arguments.floats(BY_OUTPUT);
    const int64_t ids = call.ids.size(), width = PLACES * call.padded(), filters = call.filters, dim = call.dim;
    std::vector<std::vector<float>> by_parts(call.count_parts());        // (ids, 3, filters) of each part of the words
    call.for_each_part([&](size_t part, int64_t first, int64_t end) {
        std::vector<float> &sums = by_parts[part];
        sums.resize(ids * width);
        for (int64_t word = first; word < end; word++) {
            for (int64_t block = 0; block < call.blocks(); block++) {
                Bits chosen = Bits{} - 1;
                call.largest(word, block, [&](Bits larger, int64_t position) {
                    chosen = larger ? Bits{} + int32_t(position) : chosen;
                });
                for (int64_t lane = 0; lane < std::min(int64_t(WIDTH), filters - block * WIDTH); lane++) {
                    if (chosen[lane] < 0) continue;
                    int32_t of[PLACES];
                    call.window(word, chosen[lane], of);
                    const int64_t filter = block * WIDTH + lane;
                    for (int place = 0; place < PLACES; place++) {
                        sums[of[place] * width + place * call.padded() + filter] += by_words[word * filters + filter];
                    }
                }
            }
        }
    });
    std::vector<float> &sums = by_parts[0];
    for (size_t part = 1; part < by_parts.size(); part++) {              // in a fixed order, for reproducible rounding
        for (int64_t i = 0; i < ids * width; i++) sums[i] += by_parts[part][i];
    }
    std::fill_n(out, call.characters * dim + filters * PLACES * dim, 0.0f);
    // By the vectors: sums (ids, 3 * filters) times filters (3 * filters, dim).
    Panels rows(width, dim);
    for (int place = 0; place < PLACES; place++) {
        for (int64_t f = 0; f < filters; f++) {
            rows.put(place * call.padded() + f, 0, call.weights + (f * PLACES + place) * dim, dim);
        }
    }
    std::vector<Floats> product(std::max(ids, width) * rows.width());
    auto row_of_product = [&](int64_t row) { return reinterpret_cast<const float *>(product.data() + row * rows.width()); };
    multiply({sums.data(), width, 1}, ids, rows, width, product.data(), Zeros{});
    for (int64_t i = 1; i < ids; i++) std::copy_n(row_of_product(i), dim, out + call.ids[i] * dim);
    // By the filters: transposed sums (3 * filters, ids) times vectors (ids, dim).
    const std::vector<float> vectors = call.vectors_of_ids();
    Panels of_ids(ids, dim);
    for (int64_t i = 0; i < ids; i++) of_ids.put(i, 0, vectors.data() + i * dim, dim);
    multiply({sums.data(), 1, width}, width, of_ids, ids, product.data(), Zeros{});
    float *by_filters = out + call.characters * dim;
    for (int place = 0; place < PLACES; place++) {
        for (int64_t f = 0; f < filters; f++) {
            std::copy_n(row_of_product(place * call.padded() + f), dim, by_filters + (f * PLACES + place) * dim);
        }
    }
}

// Checks the inputs of `words` and `own` further inputs.
void check_inputs(const Arguments &arguments, int own) {
    arguments.expect_inputs(BY_OUTPUT + own);
    arguments.expect(TABLE, "vectors of characters", Type::FLOATS, {ANY, ANY});
    const int64_t filters = std::max(int64_t(1), native::axis_of(arguments.ranks, arguments.shapes, FILTERS, 0));
    arguments.expect(FILTERS, "filters", Type::FLOATS, {filters, PLACES * arguments.shapes[TABLE][1]});
    const int64_t length = native::axis_of(arguments.ranks, arguments.shapes, SPELLINGS, 1);
    arguments.expect(SPELLINGS, "spellings", Type::INT32, {ANY, std::max(int64_t(0), length)});
}

void check(const Arguments &arguments) { check_inputs(arguments, 0); }

void check_gradients(const Arguments &arguments) {
    check_inputs(arguments, 1);
    arguments.expect(BY_OUTPUT, "gradient by the words", Type::FLOATS,
                     {arguments.shapes[SPELLINGS][0] * arguments.shapes[FILTERS][0]});
}

}  // namespace
}  // namespace characters

OPERATOR(CharactersWords, characters::check, characters::words) {
    const int64_t words = native::axis_of(ranks, shapes, characters::SPELLINGS, 0);
    const int64_t filters = native::axis_of(ranks, shapes, characters::FILTERS, 0);
    return {words < 0 || filters < 0 ? -1 : words * filters};
}

OPERATOR(CharactersGradients, characters::check_gradients, characters::gradients) {
    const int64_t table = native::product(shapes[characters::TABLE], ranks[characters::TABLE]);
    const int64_t filters = native::product(shapes[characters::FILTERS], ranks[characters::FILTERS]);
    return {table < 0 || filters < 0 ? -1 : table + filters};
}
