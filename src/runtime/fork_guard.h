// What happens to a job in a forked child: its descriptors are closed there, so that the parent's
// death is seen by its peers at once (a forked data loader would hold the connections open), and
// the job refuses every call with kForked.
//
// fork() in any thread takes the job's lock first, so that no table is half changed in the child;
// the child handler only closes descriptors and sets a flag. Registering is for any thread, and
// needs no memory: a job that could not be made for want of it is taken apart with none.
#ifndef FTAR_RUNTIME_FORK_GUARD_H_
#define FTAR_RUNTIME_FORK_GUARD_H_

namespace ftar::runtime {

class ForkAware {
 public:
  virtual ~ForkAware() = default;
  virtual void BeforeFork() = 0;         // takes the lock
  virtual void AfterForkInParent() = 0;  // gives it back
  virtual void
  AfterForkInChild() = 0;  // async-signal-safe: closes descriptors, marks, gives the lock back

 private:
  friend class ForkRegistry;
  ForkAware* next_ = nullptr;
};

void RegisterForkAware(ForkAware* object);
void UnregisterForkAware(ForkAware* object);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_FORK_GUARD_H_
