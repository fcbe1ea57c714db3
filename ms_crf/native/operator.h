// The interface between an operator and MindSpore: checked arguments, and the division of work among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <new>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace native {

enum class Type { FLOATS, INTEGERS, INT32, BOOLS };
constexpr int64_t ANY = -1;                            // in an expected shape: an axis of any size >= 1

// The arguments that MindSpore passes: all inputs, then the output. An operator checks all of them before it reads any.
struct Arguments {
    int count;
    void **data;
    int *ranks;
    int64_t **shapes;
    const char **types;

    // Throws std::invalid_argument unless there are `inputs` inputs.
    void expect_inputs(int inputs) const {
        if (count != inputs + 1) {
            throw std::invalid_argument("expected " + std::to_string(inputs) + " inputs, found "
                                        + std::to_string(count - 1));
        }
    }

    // Throws std::invalid_argument unless argument i has this type and shape.
    void expect(int i, const char *name, Type type, std::initializer_list<int64_t> shape) const {
        bool fits = has_type(i, type) && ranks[i] == int(shape.size());
        for (size_t axis = 0; fits && axis < shape.size(); axis++) {
            const int64_t size = shapes[i][axis], expected = shape.begin()[axis];
            fits = expected == ANY ? size >= 1 : size == expected;
        }
        if (fits) return;
        const char *const names[] = {"float32", "integers", "int32", "bool"};
        throw std::invalid_argument(
            std::string(name) + ": expected " + names[int(type)] + " of shape " + text_of(shape.begin(), shape.size())
            + ", found " + types[i] + " of shape " + text_of(shapes[i], ranks[i]));
    }

    const float *floats(int i) const { return static_cast<const float *>(data[i]); }

    int64_t size(int i) const {
        int64_t count = 1;
        for (int axis = 0; axis < ranks[i]; axis++) count *= shapes[i][axis];
        return count;
    }

    // Integers of any type, clipped to the range from `least` to `most`.
    std::vector<int64_t> integers(int i, int64_t least, int64_t most) const {
        const std::string type = types[i];
        if (type == "int32") return within<int32_t>(i, least, most);
        if (type == "int64") return within<int64_t>(i, least, most);
        if (type == "int16") return within<int16_t>(i, least, most);
        if (type == "int8") return within<int8_t>(i, least, most);
        if (type == "uint8") return within<uint8_t>(i, least, most);
        if (type == "uint16") return within<uint16_t>(i, least, most);
        if (type == "uint32") return within<uint32_t>(i, least, most);
        return within<uint64_t>(i, least, most);
    }

   private:
    bool has_type(int i, Type type) const {
        const std::string name = types[i];
        if (type == Type::FLOATS) return name == "float32";
        if (type == Type::INT32) return name == "int32";
        if (type == Type::BOOLS) return name == "bool";
        for (const char *integer : {"int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64"}) {
            if (name == integer) return true;
        }
        return false;
    }

    static std::string text_of(const int64_t *shape, size_t rank) {
        std::string text = "(";
        for (size_t axis = 0; axis < rank; axis++) {
            text += (axis ? ", " : "") + (shape[axis] == ANY ? std::string("any") : std::to_string(shape[axis]));
        }
        return text + ")";
    }

    template <class Integer>
    std::vector<int64_t> within(int i, int64_t least, int64_t most) const {
        const Integer *given = static_cast<const Integer *>(data[i]);
        std::vector<int64_t> values(size(i));
        for (size_t n = 0; n < values.size(); n++) {
            if (given[n] > Integer(0) && uint64_t(given[n]) > uint64_t(most)) {
                values[n] = most;
            } else {
                values[n] = std::max(least, int64_t(given[n]));
            }
        }
        return values;
    }
};

inline int processors() {
#ifdef PROCESSORS
    return PROCESSORS;                                 // for tests of the behaviour on larger machines
#endif
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, std::min(CPU_COUNT(&set), 16)) : 1;
}

// Calls work(index, space) for each index below count, with a separate space for each thread. `cost` is the approximate
// number of multiplications of all work. A thread is started only for some 100 microseconds of work.
template <class Space, class Work>
void share_out(size_t count, double cost, const Work &work) {
    static const int available = processors();
    const int threads = int(std::min({double(available), double(count), 1.0 + cost / 4e5}));
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    auto run = [&] {
        try {
            Space space;
            for (size_t i = next++; i < count && !failed; i = next++) work(i, space);
        } catch (...) {                                // out of memory
            failed = true;
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) {
        try {
            others.emplace_back(run);
        } catch (...) {                                // no thread is available: the existing threads do the work
            break;
        }
    }
    run();
    for (std::thread &other : others) other.join();
    if (failed) throw std::bad_alloc();
}

// The size of an array, -1 if it is unknown.
inline int64_t product(const int64_t *shape, int rank) {
    int64_t size = 1;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return -1;
        size *= shape[axis];
    }
    return size;
}

// The size of an axis of an input, -1 if it is unknown or if there is no such axis.
inline int64_t axis_of(const int *ranks, int64_t **shapes, int i, int axis) {
    return axis < ranks[i] && shapes[i][axis] >= 0 ? shapes[i][axis] : -1;
}

// Message of the last failed call of this thread.
inline thread_local std::string fault;

// Calls check(arguments), which throws std::invalid_argument for a wrong number, type or shape of inputs, and then
// compute(arguments, output, size of the output). Returns 0 for success.
//
// MindSpore raises an error with the text of a C++ exception, if library and MindSpore have the same C++ runtime.
// Otherwise the text is written to standard error, and MindSpore raises an error that names the function.
template <class Check, class Compute, class InferShape>
int run(const char *name, const Check &check, const Compute &compute, const InferShape &infer_shape, int count,
        void **data, int *ranks, int64_t **shapes, const char **types, void *extra) {
    try {
        const Arguments arguments{count, data, ranks, shapes, types};
        check(arguments);
        const std::vector<int64_t> shape = infer_shape(ranks, shapes, extra);
        const int64_t size = product(shape.data(), int(shape.size()));
        if (arguments.size(count - 1) != size) arguments.expect(count - 1, "output", Type::FLOATS, {size});
        compute(arguments, static_cast<float *>(data[count - 1]), size);
        return 0;
    } catch (const std::invalid_argument &error) {
        fault = std::string(name) + ": " + error.what();
    } catch (const std::bad_alloc &) {
        fault = std::string(name) + ": not enough memory";
    }
    if (extra == nullptr) return 1;                    // the caller is not MindSpore, and reads `fault`
#ifdef __GLIBCXX__
    throw std::runtime_error(fault);
#else
    std::fprintf(stderr, "%s\n", fault.c_str());
    return 1;
#endif
}

}  // namespace native

// Defines a function of this name that calls CHECK(arguments) and FUNCTION(arguments, output, size of the output). The
// block after the macro computes the shape of the output from the shapes of the inputs, which are not checked there.
#define OPERATOR(NAME, CHECK, FUNCTION)                                                                              \
    extern "C" std::vector<int64_t> NAME##InferShape(int *ranks, int64_t **shapes, void *extra);                     \
    extern "C" int NAME(int count, void **data, int *ranks, int64_t **shapes, const char **types, void *, void *extra) { \
        return native::run(#NAME, CHECK, FUNCTION, NAME##InferShape, count, data, ranks, shapes, types, extra);      \
    }                                                                                                                \
    extern "C" std::vector<int64_t> NAME##InferShape(int *ranks, int64_t **shapes, void *)
