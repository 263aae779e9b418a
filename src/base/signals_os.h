// The application's signals are its own: threads of the library take none of them, and none that
// the library's own calls raise gets out.
//
// Each object belongs to one thread and gives the mask back when it ends.
#ifndef FTAR_BASE_SIGNALS_OS_H_
#define FTAR_BASE_SIGNALS_OS_H_

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>

namespace ftar {

// For system calls (Uninterrupted), and for threads that are started in its life, which inherit the
// mask: a signal that a program waits for by signalfd, blocked in all threads that it knows, would
// end it in one that it does not. What a fault raises is left as it is: a handler for it is asked,
// where the mask would end the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t most;
    sigfillset(&most);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT})
      sigdelset(&most, fault);
    pthread_sigmask(SIG_BLOCK, &most, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// For system calls that say why they fail and raise a signal besides (SIGPIPE, SIGXFSZ): the signal
// that they have raised is taken away.
class SignalWithheld {
 public:
  explicit SignalWithheld(int number) {
    sigemptyset(&one_);
    sigaddset(&one_, number);
    pthread_sigmask(SIG_BLOCK, &one_, &before_);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, number) != 0;
  }
  ~SignalWithheld() {
    const int error = errno;
    const timespec now{};
    int cancel = 0;  // a thread that is cancelled would end in sigtimedwait()
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (!was_pending_ && sigtimedwait(&one_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_setcancelstate(cancel, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  SignalWithheld(const SignalWithheld&) = delete;
  SignalWithheld& operator=(const SignalWithheld&) = delete;

 private:
  sigset_t one_, before_;
  bool was_pending_ = false;
};

// A system call that any signal would end and that takes long: where signals come every so often (a
// profiler's), none of its tries would get through. What is left to interrupt it, a stop for
// example, comes once. -1 and errno are the call's.
template <typename Call>
int Uninterrupted(Call call) {
  int result = 0, error = 0;
  {
    const SignalsBlocked quiet;
    do {
      result = static_cast<int>(call());
    } while (result < 0 && errno == EINTR);
    error = errno;
  }
  errno = error;  // handlers that have waited may have had another
  return result;
}

}  // namespace ftar

#endif  // FTAR_BASE_SIGNALS_OS_H_
