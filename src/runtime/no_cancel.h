// pthread_cancel unwinds a thread out of whatever it waits in, past locks and, where exceptions
// stop, out of the process. What the library does while such an object lives is no such place; the
// thread's next one is. To make one costs two locked instructions.
#ifndef FTAR_RUNTIME_NO_CANCEL_H_
#define FTAR_RUNTIME_NO_CANCEL_H_

#include <pthread.h>

namespace ftar::runtime {

class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_NO_CANCEL_H_
