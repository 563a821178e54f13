// Which lock protects what, in words that clang checks: -Wthread-safety, by `./dev lint --tidy`.
// Other compilers see nothing. A member that a mutex protects says SHOAL_GUARDED_BY(mutex_). A
// method that is called with it held says SHOAL_REQUIRES(mutex_); one that takes it, and is called
// where it could be held already, says SHOAL_EXCLUDES(mutex_). A lambda carries its requirement
// behind its parameters:
//
//   changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return closed_; });
//
// The words are those of https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#pragma once

#if defined(__clang__)
#define SHOAL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SHOAL_THREAD_ATTRIBUTE(x)
#endif

#define SHOAL_CAPABILITY(name) SHOAL_THREAD_ATTRIBUTE(capability(name))
#define SHOAL_SCOPED_CAPABILITY SHOAL_THREAD_ATTRIBUTE(scoped_lockable)
#define SHOAL_GUARDED_BY(...) SHOAL_THREAD_ATTRIBUTE(guarded_by(__VA_ARGS__))
#define SHOAL_REQUIRES(...) SHOAL_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SHOAL_EXCLUDES(...) SHOAL_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define SHOAL_ACQUIRE(...) SHOAL_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SHOAL_RELEASE(...) SHOAL_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
