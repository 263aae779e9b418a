// Which lock guards what, for clang's -Wthread-safety, by which tests/tidy holds the runtime to it.
// Nothing to other compilers.
#ifndef FTAR_BASE_THREAD_ANNOTATIONS_H_
#define FTAR_BASE_THREAD_ANNOTATIONS_H_

#ifdef __clang__
#define FTAR_ATTRIBUTE(x) __attribute__((x))
#else
#define FTAR_ATTRIBUTE(x)
#endif

// Of types: a lock; what has one as long as it lives.
#define FTAR_CAPABILITY(name) FTAR_ATTRIBUTE(capability(name))
#define FTAR_SCOPED_CAPABILITY FTAR_ATTRIBUTE(scoped_lockable)
// Of members: what is touched only under that lock.
#define FTAR_GUARDED_BY(lock) FTAR_ATTRIBUTE(guarded_by(lock))
// Of functions, lambdas too: whoever calls it has the lock, or has not.
#define FTAR_REQUIRES(...) FTAR_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define FTAR_EXCLUDES(...) FTAR_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// Of functions: it takes the lock, or lets go of it, for good.
#define FTAR_ACQUIRE(...) FTAR_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define FTAR_RELEASE(...) FTAR_ATTRIBUTE(release_capability(__VA_ARGS__))
// Of functions: what they do is right for a reason that is written beside.
#define FTAR_NO_THREAD_SAFETY_ANALYSIS FTAR_ATTRIBUTE(no_thread_safety_analysis)

#endif  // FTAR_BASE_THREAD_ANNOTATIONS_H_
