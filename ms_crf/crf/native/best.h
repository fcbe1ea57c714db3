// Operators for best paths, and the gradients of their scores.
#pragma once

#include "call.h"

namespace chain {

// Output: scores (batch,) of the best paths, then the paths (batch, length), 0 on padding.
inline void decode(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    float *paths = out + batch.rows;
    clear(out, size);
    share_out<Space>(call.groups.size(), cost_of(call, 4.0), [&](size_t i, Space &space) {
        const Group &group = call.groups[i];
        std::vector<int32_t> path(batch.length);
        viterbi(call.model, batch, group, space.search);
        for (int lane = 0; lane < group.count; lane++) {
            const int64_t row = group.rows[lane];
            walk_back(space.search, group, lane, batch.tags, path.data());
            out[row] = float(score_of(call.model, batch, row, path.data()));
            for (int64_t t = 0; t < group.lengths[lane]; t++) paths[row * batch.length + t] = float(path[t]);
        }
    });
    for (int64_t row : call.faulty) out[row] = float(NOT_A_NUMBER);
    for (int64_t row = 0; row < batch.rows; row++) {
        if (call.is_void(row)) out[row] = float(NOT_A_NUMBER);
    }
}

// Output: scores (batch, tags) of the best path that ends in each tag, including the end score, then the previous tags
// (length - 1, batch, tags).
inline void viterbi_scores(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    const int64_t tags = batch.tags;
    float *history = out + batch.rows * tags;
    clear(out, size);
    share_out<Space>(call.groups.size(), cost_of(call, 4.0), [&](size_t i, Space &space) {
        const Group &group = call.groups[i];
        viterbi(call.model, batch, group, space.search);
        for (int lane = 0; lane < group.count; lane++) {
            const int64_t row = group.rows[lane];
            double peaks = 0.0;
            for (int64_t t = 0; t < group.lengths[lane]; t++) {
                const double peak = *std::max_element(batch.at(row, t), batch.at(row, t) + tags);
                peaks += is_forbidden(peak) ? FORBIDDEN : peak;
                for (int64_t k = 0; t > 0 && k < tags; k++) {
                    history[((t - 1) * batch.rows + row) * tags + k] = float(space.search.history[t * tags + k][lane]);
                }
            }
            for (int64_t k = 0; k < tags; k++) {
                out[row * tags + k] = float(space.search.ends[k][lane] + peaks);
            }
        }
    });
    for (int64_t row : call.faulty) std::fill_n(out + row * tags, tags, float(NOT_A_NUMBER));
    for (int64_t row = 0; row < batch.rows; row++) {
        if (call.is_void(row)) std::fill_n(out + row * tags, tags, float(NOT_A_NUMBER));
    }
}

// The tag that a float in a result stands for; 0 for a number that is not a tag.
inline int64_t tag_of(float number, int64_t tags) { return number >= 0.0f && number < float(tags) ? int64_t(number) : 0; }

// Gradients of the scores of paths, in the layout of the operator `gradients`; `add` is called for each path.
class PathGradients {
   public:
    PathGradients(const Call &call, float *out) : call_(call), out_(out), by_scores_(call.model.tags) {}

    template <class TagAt>
    void add(int64_t row, double factor, const TagAt &tag_at) {
        const Batch &batch = call_.batch;
        int64_t before = 0;
        for (int64_t t = 0; t < batch.lengths[row]; t++) {
            const int64_t tag = tag_at(t);
            if (!is_forbidden(batch.at(row, t)[tag])) out_[batch.offset(row, t) + tag] += float(factor);
            (t > 0 ? by_scores_.by_transitions[before * batch.tags + tag] : by_scores_.by_start[tag]) += factor;
            if (t == batch.lengths[row] - 1) by_scores_.by_end[tag] += factor;
            before = tag;
        }
    }

    void finish() { by_scores_.write(call_, out_); }

   private:
    const Call &call_;
    float *out_;
    ScoreGradients by_scores_;
};

// Gradients of `decode` and `n_best`. Own inputs: the result of the operator, and factors of the scores (batch,) or
// (batch, n).
inline void path_gradients(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    const int64_t count = arguments.size(OWN + 1), n = count / batch.rows;
    const float *scores = arguments.floats(OWN), *paths = scores + count, *factors = arguments.floats(OWN + 1);
    clear(out, size);
    PathGradients result(call, out);
    for (int64_t i = 0; i < count; i++) {
        if (factors[i] == 0.0f || scores[i] <= float(LOWEST)) continue;
        const float *path = paths + i * batch.length;
        result.add(i / n, factors[i], [&](int64_t t) { return tag_of(path[t], batch.tags); });
    }
    result.finish();
}

// Gradients of `viterbi_scores`. Own inputs: the result of the operator, and factors of the scores (batch, tags).
inline void viterbi_gradients(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    const int64_t tags = batch.tags;
    const float *history = arguments.floats(OWN) + batch.rows * tags, *factors = arguments.floats(OWN + 1);
    std::vector<int64_t> path(batch.length);
    clear(out, size);
    PathGradients result(call, out);
    for (int64_t row = 0; row < batch.rows; row++) {
        for (int64_t end = 0; end < tags; end++) {
            int64_t tag = end;
            for (int64_t t = batch.lengths[row] - 1; t >= 0; t--) {
                path[t] = tag;
                if (t > 0) tag = tag_of(history[((t - 1) * batch.rows + row) * tags + tag], tags);
            }
            result.add(row, factors[row * tags + end], [&](int64_t t) { return path[t]; });
        }
    }
    result.finish();
}

// Own input: any array of n elements. Output: scores (batch, n) of the n best paths, then the paths (batch, n, length),
// 0 on padding.
inline void n_best(const Arguments &arguments, float *out, int64_t size) {
    Call call(arguments);
    const Batch &batch = call.batch;
    const int64_t n = arguments.size(OWN), length = batch.length;
    float *paths = out + batch.rows * n;
    clear(out, size);
    share_out<Space>(call.groups.size(), cost_of(call, double(n)), [&](size_t i, Space &) {
        std::vector<int32_t> several(n * length);
        std::vector<double> scores(n);
        for (int lane = 0; lane < call.groups[i].count; lane++) {
            const int64_t row = call.groups[i].rows[lane], real = batch.lengths[row];
            search_several(call.model, batch, row, n, several.data(), scores.data());
            for (int64_t rank = 0; rank < n; rank++) {
                out[row * n + rank] = float(scores[rank]);
                for (int64_t t = 0; t < real; t++) {
                    paths[(row * n + rank) * length + t] = float(several[rank * real + t]);
                }
            }
        }
    });
    for (int64_t row : call.empty) std::fill_n(out + row * n + 1, n - 1, float(LOWEST));   // only the empty path exists
    for (int64_t row : call.faulty) std::fill_n(out + row * n, n, float(NOT_A_NUMBER));
    for (int64_t row = 0; row < batch.rows; row++) {
        if (call.is_void(row)) std::fill_n(out + row * n, n, float(NOT_A_NUMBER));
    }
}

}  // namespace chain
