// The C++17 face of libftar: RAII and errors as values over ftar.h, header-only, nothing else
// inside.
//
//   ftar::Job job = ftar::Job::Join().value();         // from FTAR_* or the launcher's variables
//   ftar::Group group = job.OpenGroup().value();
//   auto gradients = job.Alloc<float>(n).value();      // or any std::vector
//   for (;;) {
//     ftarStepInfo step = ftar::Finish([&] { return job.BeginStep(); }).value();
//     group.ShareState(weights, step).OrThrow();       // newcomers have none
//     ...
//     ftar::Outcome done = group.AllReduce(gradients, FTAR_AVG).Finish();
//     if (!done.ok()) return Fail(done.Text());        // says who and why
//   }
//
// Errors: what makes something returns Result<T>; operations end in an Outcome, a refused start
// included. Neither throws unless asked: value() and OrThrow() throw ftar::Error in the caller's
// translation unit; no exception crosses the library.
// Not final is what can be asked again (Status::final); Finish() does that.
// Threads: as in ftar.h; moving and destroying an object must be alone.
// Ownership: objects are move-only and give their handle back when they go. An Op that goes does
// not stop its operation: the buffers stay the library's until the final outcome. Destroy groups
// and buffers before their job. A job or group that goes in a callback lives on, out of reach.
// Left to ftar.h, which may be called beside this: its version, the log handler (a function, since
// a replaced one may still be running), knobs before there is a job, and registered memory.
#ifndef FTAR_FTAR_HPP_
#define FTAR_FTAR_HPP_

#include <ftar/ftar.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ftar {
inline namespace v1 {

// What a call answered, and if it failed who and why: ftarGetLastError() as it was then.
class [[nodiscard]] Status {
 public:
  Status(ftarResult_t code = FTAR_OK) : code_(code) {
    if (code <= FTAR_IN_PROGRESS) return;
    auto info = std::make_shared<ftarErrorInfo>(ftarErrorInfo FTAR_ERROR_INFO_INIT);
    ftarGetLastError(info.get());
    info->code = code;  // a forked child is refused that call, too
    error_ = std::move(info);
  }
  bool ok() const { return code_ == FTAR_OK; }
  explicit operator bool() const { return ok(); }
  ftarResult_t code() const { return code_; }
  // Of a wait. False: it is over, what it waited for goes on, an operation's buffers stay the
  // library's; ask again. Not of a Join, a WaitReady or a refused start: these say why they failed,
  // and are over whatever this says.
  bool final() const {
    return code_ != FTAR_IN_PROGRESS && code_ != FTAR_TIMEOUT && code_ != FTAR_ERR_QUORUM &&
           code_ != FTAR_ERR_COORDINATOR;
  }
  const ftarErrorInfo* error() const { return error_.get(); }  // null: nothing is wrong
  std::string Text() const {
    const std::string name = ftarResultString(code_);
    return error_ ? name + ": " + error_->text : name;
  }
  [[gnu::always_inline]] void OrThrow() const;

 private:
  friend class Group;
  // An error of this header's own.
  static Status Own(ftarResult_t code, const char* argument, const std::string& text) {
    auto info = std::make_shared<ftarErrorInfo>(ftarErrorInfo FTAR_ERROR_INFO_INIT);
    info->code = code;
    std::snprintf(info->argument, sizeof info->argument, "%s", argument);
    std::snprintf(info->text, sizeof info->text, "%s", text.c_str());
    Status status;
    status.code_ = code;
    status.error_ = std::move(info);
    return status;
  }
  ftarResult_t code_;
  std::shared_ptr<const ftarErrorInfo> error_;
};

class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status) : std::runtime_error(status.Text()), status_(status) {}
  ftarResult_t code() const { return status_.code(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// Where exceptions are switched off, asking for one ends the program. What asks is made anew where
// it is called: of an inline function the linker keeps one copy, maybe that of a file without them.
[[gnu::always_inline]] inline void Status::OrThrow() const {
  if (ok()) return;
#if defined(__cpp_exceptions)
  throw Error(*this);
#else
  std::fprintf(stderr, "%s\n", Text().c_str());
  std::abort();
#endif
}

// A T, or the reason why there is none. value() then throws Error; * and -> must not be used.
template <typename T>
class [[nodiscard]] Result : public Status {
 public:
  Result(ftarResult_t code, T value = T()) : Status(code), value_(std::move(value)) {}
  [[gnu::always_inline]] T value() && { return OrThrow(), std::move(value_); }
  [[gnu::always_inline]] T& value() & { return OrThrow(), value_; }
  T& operator*() { return value_; }
  T* operator->() { return &value_; }

 private:
  T value_;
};

// How an operation ended, or why it has not: ftarOpWait says what each status means.
struct [[nodiscard]] Outcome : ftarOutcome, Status {
  Outcome(const ftarOutcome& outcome, const Status& why) : ftarOutcome(outcome), Status(why) {
    status = why.code();
  }
  [[gnu::always_inline]] const Outcome& OrThrow() const { return Status::OrThrow(), *this; }
};

// What `wait()`, asked until it is final, answers: it waits for as long as nobody can decide who is
// in. Job::Abort by another thread ends that. `wait` is BeginStep, EndStep, Leave or Op::Wait,
// without a time limit: what fails at once is asked again at once.
template <typename F>
auto Finish(F wait) -> decltype(wait()) {
  for (;;) {
    if (auto answer = wait(); answer.final()) return answer;
  }
}

// Owns a handle, or none: what can fail is FTAR_ERR_HANDLE then. `Free` is its ftar...Destroy,
// Close or Release.
template <typename T, ftarResult_t (*Free)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T handle) : handle_(handle) {}
  T get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

 protected:
  // What callbacks use; it goes after the handle. `self`: never, since the job lives on.
  struct Kept {
    std::function<void(const ftarEvent&)> handler;
    std::shared_ptr<Kept> self;
  };
  struct Deleter {
    void operator()(T handle) const {
      if (Free(handle) == FTAR_ERR_STATE && kept) kept->self = kept;  // it is in a callback
    }
    std::shared_ptr<Kept> kept;
  };
  // A wrapper around what `make(&handle)` made; the value of an output struct after `fill(&value)`.
  template <typename Wrapper, typename Raw, typename Make>
  static Result<Wrapper> Made(Make make) {
    Raw raw = nullptr;
    const ftarResult_t code = make(&raw);
    return {code, Wrapper(raw)};
  }
  template <typename Info, typename Fill>
  static Info Filled(Info info, Fill fill) {
    return fill(&info), info;
  }
  std::unique_ptr<std::remove_pointer_t<T>, Deleter> handle_;
};

class [[nodiscard]] Op : public Handle<ftarOp_t, ftarOpRelease> {
 public:
  Op() = default;
  explicit Op(ftarOp_t op, Status started = FTAR_OK) : Handle(op), started_(std::move(started)) {}
  // The final outcome, the refusal to start, or why the wait ended early. -1: while there is hope.
  Outcome Wait(int64_t timeout_ns = -1) const {
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    if (!started_.ok()) return {outcome, started_};
    const Status status = ftarOpWait(get(), timeout_ns, &outcome);
    return {outcome, status};
  }
  // The final outcome or the refusal to start.
  Outcome Finish() const {
    return started_.ok() ? ftar::Finish([this] { return Wait(); }) : Wait();
  }
  Outcome Test() const { return Wait(0); }
  // All members of the delivered attempt with their weight in it; empty before the final outcome.
  std::vector<ftarMemberInfo> Participants() const {
    size_t n = 0;
    ftarOpParticipants(get(), nullptr, sizeof(ftarMemberInfo), 0, &n);
    std::vector<ftarMemberInfo> all(n);
    if (n > 0) ftarOpParticipants(get(), all.data(), sizeof(ftarMemberInfo), n, &n);
    return all;
  }

 private:
  Status started_;
};

class View : public Handle<ftarView_t, ftarViewRelease> {
 public:
  using Handle::Handle;
  ftarViewInfo Info() const {
    return Filled(ftarViewInfo FTAR_VIEW_INFO_INIT, [&](auto* i) { ftarViewGetInfo(get(), i); });
  }
  ftarMemberInfo Member(int32_t rank) const {
    return Filled(ftarMemberInfo FTAR_MEMBER_INFO_INIT,
                  [&](auto* i) { ftarViewGetMember(get(), rank, i); });
  }
};

// Not of 16-bit integers, and not of __int128.
template <typename T>
constexpr bool kHasDtype =
    std::is_same_v<T, float> || std::is_same_v<T, double> ||
    (std::is_integral_v<T> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8));

// For types C++ has no name for, fill in an OpDesc.
template <typename T>
constexpr ftarDtype_t DtypeOf() {
  if constexpr (std::is_same_v<T, float>) return FTAR_F32;
  if constexpr (std::is_same_v<T, double>) return FTAR_F64;
  static_assert(kHasDtype<T>,
                "elements are float, double or integers of 1, 4 or 8 bytes; for others fill in an "
                "OpDesc");
  constexpr ftarDtype_t kSigned = sizeof(T) == 1 ? FTAR_I8 : sizeof(T) == 4 ? FTAR_I32 : FTAR_I64;
  return std::is_signed_v<T> ? kSigned : kSigned + 1;
}

// What std::data of an lvalue of type C points to.
template <typename C>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>;

// Like std::span: nothing to destroy, copied by assignment, and a const one writes as any other. So
// the elements are somebody else's. An array's are its own, as are a vector's and a Buffer's.
template <typename C, typename = void>
struct IsView : std::false_type {};
// What {1, 2} becomes looks like one, and its elements go with it.
template <typename C>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::initializer_list<T>> = true;
template <typename C>
struct IsView<C, std::enable_if_t<std::is_same_v<ElementOf<C>, ElementOf<const C>>>>
    : std::bool_constant<std::is_trivially_destructible_v<C> &&
                         std::is_trivially_copy_assignable_v<C> && !kIsList<C>> {};

// ElementOf what an operation takes: an object with a name, or a temporary view. There is none for
// a temporary that owns its elements, which would go before the operation ends.
template <typename C>
using Element = std::enable_if_t<std::is_lvalue_reference_v<C> ||
                                     IsView<std::remove_cv_t<std::remove_reference_t<C>>>::value,
                                 ElementOf<C>>;

// A descriptor with the defaults set; fill in what differs (weight, stream, on_done, ...) and give
// it to Group::Start, or many to Group::StartMany. It points to buffers and owns none.
struct OpDesc : ftarOpDesc {
  OpDesc() : ftarOpDesc FTAR_OP_DESC_INIT {}
  // In place, as Group::AllReduce and Group::Broadcast.
  template <typename C, typename = Element<C>>
  static OpDesc AllReduce(C&& data, ftarRedop_t redop = FTAR_SUM) {
    OpDesc desc = Between(FTAR_ALLREDUCE, data, data);
    desc.count = std::size(data);
    desc.redop = redop;
    return desc;
  }
  template <typename C, typename = Element<C>>
  static OpDesc Broadcast(C&& data, int32_t root, uint64_t epoch = 0) {
    OpDesc desc = Between(FTAR_BROADCAST, data, data);
    desc.count = std::size(data);
    desc.root = root;
    desc.epoch = epoch;
    return desc;
  }
  template <typename C, typename = Element<C>>
  static OpDesc Broadcast(C&& data, const ftarStepInfo& step) {
    return Broadcast(data, step.source, step.epoch);
  }

 private:
  friend class Group;
  template <typename S, typename R>
  static OpDesc Between(ftarKind_t kind, S& send, R& recv) {
    static_assert(std::is_same_v<std::remove_const_t<ElementOf<S>>, ElementOf<R>>,
                  "send and recv have elements of one type, and those of recv can be written");
    OpDesc desc;
    desc.kind = kind;
    desc.dtype = DtypeOf<ElementOf<R>>();
    desc.send = std::data(send);
    desc.recv = std::data(recv);
    return desc;
  }
};

// Operations take anything with std::data and std::size: Buffer, vector, array, span. What is given
// as a temporary has to be a view of elements that stay, as a span is. Sizes that do not fit
// together are FTAR_ERR_ARG and start nothing. Out of place, types must be the same; in place is
// where both begin at the same address.
class Group : public Handle<ftarGroup_t, ftarGroupClose> {
 public:
  using Handle::Handle;
  Op Start(const ftarOpDesc& desc) const {
    ftarOp_t op = nullptr;
    const Status started = ftarOpStart(get(), &desc, &op);
    return Op(op, started);
  }
  // All of them or none, with consecutive seqs, in the order of `descs`: a vector or array of
  // OpDesc or ftarOpDesc, which the call copies. 65,536 at most.
  template <typename C>
  Result<std::vector<Op>> StartMany(const C& descs) const {
    std::vector<ftarOp_t> started(std::size(descs));
    std::vector<Op> ops(started.size());  // before there is a handle that could be lost
    const ftarResult_t code = ftarOpStartMany(get(), std::data(descs), sizeof *std::data(descs),
                                              started.size(), started.data());
    for (size_t i = 0; i < ops.size() && code == FTAR_OK; ++i) ops[i] = Op(started[i]);
    return {code, std::move(ops)};
  }
  // How the operation `seq` of this group ended, one of its last 1,024, a graph's too: ask its
  // `status`. FTAR_IN_PROGRESS: not final yet. FTAR_ERR_ARG: not started, or too long ago.
  Result<ftarOutcome> GetOutcome(uint64_t seq) const {
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    const ftarResult_t code = ftarGroupOutcome(get(), seq, &outcome);
    return {code, outcome};
  }
  // In place.
  template <typename C, typename = Element<C>>
  Op AllReduce(C&& data, ftarRedop_t redop = FTAR_SUM) const {
    return AllReduce(data, data, redop);
  }
  template <typename S, typename R, typename = Element<S>, typename = Element<R>>
  Op AllReduce(S&& send, R&& recv, ftarRedop_t redop = FTAR_SUM) const {
    OpDesc desc = OpDesc::Between(FTAR_ALLREDUCE, send, recv);
    desc.count = std::size(recv);
    desc.redop = redop;
    return StartIfFits(desc, "send", std::size(send), 1);
  }
  // `send` holds a segment for each rank, one after the other; `recv` becomes the sum of this
  // member's. Ranks, and how many, are those of the group's view at the call, in which the members
  // agree only while nobody joins or goes.
  template <typename S, typename R, typename = Element<S>, typename = Element<R>>
  Op ReduceScatter(S&& send, R&& recv, ftarRedop_t redop = FTAR_SUM) const {
    return InViewNow([&](const auto& now) { return ReduceScatter(send, recv, now, redop); });
  }
  // The same with the ranks of the step's view, whoever has gone since the step began.
  template <typename S, typename R, typename = Element<S>, typename = Element<R>>
  Op ReduceScatter(S&& send, R&& recv, const ftarStepInfo& step,
                   ftarRedop_t redop = FTAR_SUM) const {
    OpDesc desc = OpDesc::Between(FTAR_REDUCE_SCATTER, send, recv);
    desc.count = std::size(recv);
    desc.redop = redop;
    desc.epoch = step.epoch;
    return StartIfFits(desc, "send", std::size(send), step.participants);
  }
  // `recv` becomes every rank's `send`, one after the other, zeros for those who have gone. Views
  // as for ReduceScatter.
  template <typename S, typename R, typename = Element<S>, typename = Element<R>>
  Op AllGather(S&& send, R&& recv) const {
    return InViewNow([&](const auto& now) { return AllGather(send, recv, now); });
  }
  template <typename S, typename R, typename = Element<S>, typename = Element<R>>
  Op AllGather(S&& send, R&& recv, const ftarStepInfo& step) const {
    OpDesc desc = OpDesc::Between(FTAR_ALLGATHER, send, recv);
    desc.count = std::size(send);
    desc.epoch = step.epoch;
    return StartIfFits(desc, "recv", std::size(recv), step.participants);
  }
  // In place, from the rank `root` of the view of `epoch`; 0: of the group's view at the call.
  template <typename C, typename = Element<C>>
  Op Broadcast(C&& data, int32_t root, uint64_t epoch = 0) const {
    return Start(OpDesc::Broadcast(data, root, epoch));
  }
  // From the step's source, whoever has gone since the step began.
  template <typename C, typename = Element<C>>
  Op Broadcast(C&& data, const ftarStepInfo& step) const {
    return Broadcast(data, step.source, step.epoch);
  }
  // Brings newcomers the state: all members call it behind BeginStep, once for each piece of the
  // state, before anything else of the step. Nothing is sent where nobody has joined. Where the
  // source goes meanwhile, another member that has the state sends it. Waits as Finish() does.
  // FTAR_ERR_ABSENT: all who had it have gone; load a checkpoint, or stop.
  template <typename C, typename = Element<C>>
  Status ShareState(C&& data, const ftarStepInfo& step) const {
    if (step.joined == 0) return FTAR_OK;
    if (step.source < 0) return Status::Own(FTAR_ERR_ABSENT, "state", "all who had it have gone");
    // Also from who has no input for this step.
    const auto from = [&](int32_t rank) {
      OpDesc desc = OpDesc::Broadcast(data, rank, step.epoch);
      desc.weight = 1;
      return Start(desc).Finish();
    };
    Outcome sent = from(step.source);
    for (int32_t rank = 0; rank < step.participants - step.joined; ++rank) {
      if (sent.code() != FTAR_ERR_ABSENT) break;
      if (rank != step.source) sent = from(rank);
    }
    return sent;
  }
  Op Barrier() const {
    OpDesc desc;
    desc.kind = FTAR_BARRIER;
    return Start(desc);
  }
  Result<View> GetView() const {
    return Made<View, ftarView_t>([&](auto* view) { return ftarGroupGetView(get(), view); });
  }
  ftarGroupInfo Info() const {
    return Filled(ftarGroupInfo FTAR_GROUP_INFO_INIT, [&](auto* i) { ftarGroupGetInfo(get(), i); });
  }

 private:
  // Starts it if `argument` has `count` elements for each of so many members.
  Op StartIfFits(const OpDesc& desc, const char* argument, uint64_t size, int32_t members) const {
    const auto n = static_cast<uint64_t>(members > 0 ? members : 0);
    if (n > 0 && size % n == 0 && size / n == desc.count) return Start(desc);
    std::string text = std::string(argument) + " has " + std::to_string(size) + " elements, not " +
                       std::to_string(desc.count);
    if (desc.kind != FTAR_ALLREDUCE) text += " for each of " + std::to_string(n) + " members";
    return Op(nullptr, Status::Own(FTAR_ERR_ARG, argument, text));
  }
  // Starts what `start` makes of the group's view at this call, told as a step tells it. Named, it
  // holds also if another view comes meanwhile.
  template <typename F>
  Op InViewNow(F start) const {
    ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
    if (Status asked = ftarGroupGetInfo(get(), &info); !asked.ok()) return Op(nullptr, asked);
    ftarStepInfo now = FTAR_STEP_INFO_INIT;
    now.epoch = info.epoch;
    now.participants = info.members;
    return start(now);
  }
};

// Memory from the library: operations on it save copies between processes of one host. Zeroed; a
// GPU's (FTAR_MEM_CUDA) is not, and the host cannot follow its addresses.
template <typename T>
class Buffer {
 public:
  Buffer(ftarJob_t job, T* data, size_t size) : data_(data, Free{job}), size_(size) {}
  T* data() const { return data_.get(); }
  size_t size() const { return data_ ? size_ : 0; }  // it may have been moved from
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  T& operator[](size_t i) const { return data()[i]; }

 private:
  struct Free {
    ftarJob_t job;
    void operator()(T* data) const { ftarMemFree(job, data); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

// How to join; all of it has defaults. Set() takes any knob by name; a wrong one fails in Join.
struct JobConfig : ftarJobConfig {
  JobConfig() : ftarJobConfig FTAR_JOB_CONFIG_INIT {}
  JobConfig& Set(std::string knob, std::string value) {
    knobs.emplace_back(std::move(knob), std::move(value));
    return *this;
  }
  std::vector<std::pair<std::string, std::string>> knobs;
  std::function<void(const ftarEvent&)> handler;  // instead of on_event and user
};

// A knob's value in force and where it comes from, for example "environment FTAR_TIMEOUT".
struct Knob {
  std::string name, value, origin, help;
};

class Job : public Handle<ftarJob_t, ftarJobDestroy> {
 public:
  using Handle::Handle;
  static Result<Job> Join(JobConfig config = {}) {
    Handle<ftarConfig_t, ftarConfigDestroy> knobs;
    if (const ftarResult_t code = Configure(config, &knobs); code != FTAR_OK) return code;
    if (knobs) config.config = knobs.get();
    Job job;
    if (config.handler) {
      const auto kept = std::make_shared<Kept>(Kept{std::move(config.handler), nullptr});
      config.user = kept.get();
      config.on_event = [](const ftarEvent* e, void* k) { static_cast<Kept*>(k)->handler(*e); };
      job.handle_.get_deleter().kept = kept;
    }
    ftarJob_t raw = nullptr;
    const ftarResult_t code = ftarJobJoin(&config, &raw);
    job.handle_.reset(raw);
    return {code == FTAR_IN_PROGRESS ? FTAR_OK : code, std::move(job)};
  }
  Status WaitReady(int64_t timeout_ns = -1) const { return ftarJobWaitReady(get(), timeout_ns); }
  Status Leave(int64_t timeout_ns = -1) const { return ftarJobLeave(get(), timeout_ns); }
  Status Abort(const char* reason) const { return ftarJobAbort(get(), reason); }
  // This member is broken, it says itself; the group decides.
  Status Report(ftarResult_t cause, const char* text) const {
    return ftarJobReport(get(), cause, text);
  }
  // Asks the group to go on without `member`; the event tells.
  Status Evict(ftarId member, const char* reason) const {
    return ftarJobEvict(get(), member, reason);
  }
  // The oldest event not yet taken: `while (auto event = job.NextEvent()) Note(event->who.text)`.
  // Not ok: FTAR_IN_PROGRESS or FTAR_TIMEOUT, there is none. JobConfig::handler hears them as well.
  Result<ftarEvent> NextEvent(int64_t timeout_ns = 0) const {
    ftarEvent event = FTAR_EVENT_INIT;
    const ftarResult_t code = ftarJobNextEvent(get(), &event, timeout_ns);
    return {code, event};
  }
  // Polls readable while events wait. The job's own: neither read nor close it.
  Result<int> EventFd() const {
    int fd = -1;
    const ftarResult_t code = ftarJobEventFd(get(), &fd);
    return {code, fd};
  }
  Result<uint64_t> Counter(const char* name) const {
    uint64_t value = 0;
    const ftarResult_t code = ftarJobGetCounter(get(), name, &value);
    return {code, value};
  }
  // Flight recorder, counters, view and links as JSON, into a file that it replaces.
  Status Dump(const char* path) const { return ftarJobDump(get(), path); }
  Result<std::vector<Knob>> Knobs() const {
    std::vector<Knob> knobs;
    const ftarConfigVisitor add = [](const char* name, const char* value, const char* origin,
                                     const char* help, void* all) noexcept {
      static_cast<std::vector<Knob>*>(all)->push_back({name, value, origin, help});
    };
    const ftarResult_t code = ftarJobConfigEach(get(), add, &knobs);
    return {code, std::move(knobs)};
  }
  Result<View> GetView() const {
    return Made<View, ftarView_t>([&](auto* view) { return ftarJobGetView(get(), view); });
  }
  Result<Group> OpenGroup(const char* name = nullptr, int32_t window = 0,
                          int32_t priority = 0) const {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    config.name = name;
    config.window = window;
    config.priority = priority;
    return Made<Group, ftarGroup_t>([&](auto* g) { return ftarGroupOpen(get(), &config, g); });
  }
  Result<ftarStepInfo> BeginStep(int64_t step = -1, double weight = 1, uint32_t flags = 0) const {
    ftarStepConfig config = FTAR_STEP_CONFIG_INIT;
    config.step = step;
    config.weight = weight;
    config.flags = flags;
    ftarStepInfo info = FTAR_STEP_INFO_INIT;
    const ftarResult_t code = ftarStepBegin(get(), &config, &info);
    return {code, info};
  }
  // Waits for the operations of the step that runs and sums up who was in all of them. If any has
  // failed it says so: FTAR_ERR_ABSENT also where ShareState had to ask another source.
  Result<ftarStepInfo> EndStep(int64_t step = -1) const {
    ftarStepInfo info = FTAR_STEP_INFO_INIT;
    const ftarResult_t code = ftarStepEnd(get(), step, &info);
    return {code, info};
  }
  // `where`: null for the host's memory.
  template <typename T>
  Result<Buffer<T>> Alloc(size_t count, const ftarMemDesc* where = nullptr) const {
    void* memory = nullptr;
    const size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    const ftarResult_t code = ftarMemAlloc(get(), bytes > 0 ? bytes : 1, where, &memory);
    return {code, Buffer<T>(get(), static_cast<T*>(memory), count)};
  }

 private:
  static ftarResult_t Configure(const JobConfig& config,
                                Handle<ftarConfig_t, ftarConfigDestroy>* knobs) {
    if (config.knobs.empty()) return FTAR_OK;
    ftarConfig_t made = nullptr;
    ftarResult_t code = ftarConfigCreate(&made);
    *knobs = Handle<ftarConfig_t, ftarConfigDestroy>(made);
    for (const auto& [name, value] : config.knobs) {
      if (code == FTAR_OK) code = ftarConfigSet(made, name.c_str(), value.c_str());
    }
    return code;
  }
};

}  // namespace v1
}  // namespace ftar

#endif  // FTAR_FTAR_HPP_
