// Operations on users' streams: they are called when their stream gets to them, in the order of the
// calls, and the stream goes on when they are delivered. And the GPU that they are on.
//
// Nothing is put onto a stream under the job's lock: that may wait until the stream gets on, which
// may wait for an operation of ours.
#include <algorithm>
#include <utility>

#include "base/undo.h"
#include "device/load.h"
#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

// So long a call waits for the resident kernel to stay; it goes on without, and so do those that
// follow until it has come.
constexpr TimeNs kStayNs = 20 * kMillisecond;
// A stream's queue takes about 1,000 entries, and whoever fills it is kept by the driver, maybe
// with its lock, which launches of ours need. An operation costs 3 of them at most: so many leave
// more than half of the queue to what the user puts between them.
constexpr size_t kClosedGatesMax = 128;

device::Gate::Outcome ToGate(const collective::Outcome& outcome) {
  device::Gate::Outcome out;
  out.status = static_cast<int32_t>(outcome.status);
  out.participants = outcome.participants;
  out.weight_sum = outcome.weight_sum;
  out.seq = outcome.seq;
  out.epoch = outcome.epoch;
  return out;
}

device::Gate::Outcome Refused(Code why) {
  device::Gate::Outcome out;
  out.status = static_cast<int32_t>(why);
  out.seq = kNoSeq;
  return out;
}

// Unmapped by whoever holds it last, which may be after the job.
Expected<std::shared_ptr<std::byte>> ImportBlock(const std::shared_ptr<device::Gpu>& gpu, int fd,
                                                 size_t bytes) {
  const Expected<void*> made = gpu->Import(fd, bytes);
  if (!made.ok()) return made.status();
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(*made), [gpu](std::byte* address) {
    static_cast<void>(gpu->Unmap(address));
  });
}

// Said once for each peer: its link asks for no more once it was refused.
std::string CopiesText(const Status& why) {
  return "a peer's GPU memory cannot be mapped here, so that all of that peer's comes by way of "
         "the host's memory: " +
         why.text();
}

Expected<transport::ExportedMemory::DmaBuf> OpenDmaBuf(device::Gpu* gpu, const std::byte* data,
                                                       size_t bytes) {
  const Expected<device::DmaBuf> pages = gpu->OpenDmaBuf(data, bytes);
  if (!pages.ok()) return pages.status();
  return transport::ExportedMemory::DmaBuf{transport::UniqueFd(pages->descriptor), pages->offset};
}

}  // namespace

// ---- the GPU

Expected<device::Gpu*> Job::Impl::Gpu(int32_t device) {
  const std::lock_guard<std::mutex> alone(gpu_mutex_);
  device::Gpu* gpu = gpu_.load(std::memory_order_acquire);
  if (gpu == nullptr) {
    if (config_.text(KnobId::kGpu) == "off")
      return Status(Code::kUnsupported, "gpu", "the knob gpu is off");
    Accelerator::Options options;
    options.library = GpuLibrary();
    options.device = device;
    const bool resident = config_.text(KnobId::kGpuExecutor) == "resident";
    options.executor.kind =
        resident ? device::ExecutorKind::kResident : device::ExecutorKind::kBounded;
    options.executor.blocks = static_cast<int>(config_.integer(KnobId::kGpuBlocks));
    options.shape.blocks = options.executor.blocks;
    options.executor.stuck_ns = timeout_ns_;
    auto opened = Accelerator::Open(options);
    if (!opened.ok()) return opened.status();
    const JobLock lock(mutex_);
    FTAR_RETURN_IF_ERROR(CheckUsable());
    gpu = &(*opened)->gpu();
    log_.Info("runtime", "GPU " + std::to_string(gpu->facts().device) + ": " + gpu->facts().name);
    if (!gpu->facts().warning.empty()) log_.Warn("runtime", "GPU: " + gpu->facts().warning);
    gates_ = std::make_unique<GatePool>(gpu);
    exports_->SetImporter([gpu = (*opened)->shared_gpu(), log = &log_](int fd, size_t bytes) {
      auto block = ImportBlock(gpu, fd, bytes);
      if (!block.ok()) log->Warn("runtime", CopiesText(block.status()));
      return block;
    });
    exports_->SetDmaBufOpener([gpu = (*opened)->shared_gpu()](const std::byte* data, size_t bytes) {
      return OpenDmaBuf(gpu.get(), data, bytes);
    });
    driver_->Use(std::move(opened.value()));
    gpu_.store(gpu, std::memory_order_release);
  }
  if (device >= 0 && device != gpu->facts().device) {
    return Status(Code::kArg, "device",
                  "device is " + std::to_string(device) + ", and this job uses GPU " +
                      std::to_string(gpu->facts().device));
  }
  return gpu;
}

std::string Job::Impl::GpuLibrary() const {
  const std::string& library = config_.text(KnobId::kGpu);
  return library == "auto" ? "" : library;
}

// A GPU that does not open now may open for the next call: it may have been short of memory.
Expected<device::Gpu*> Job::Impl::GpuAt(const void* address) {
  const Expected<device::PointerFacts> facts = device::IdentifyPointer(GpuLibrary(), address);
  if (!facts.ok()) return facts.status();
  if (facts->kind == device::PointerKind::kUnknown) {
    return Status(Code::kDevice, "CUDA's context in this process is broken");
  }
  if (facts->kind != device::PointerKind::kDevice) return static_cast<device::Gpu*>(nullptr);
  return Gpu(facts->device);
}

// The calling thread's current GPU may be another one than the stream's.
Expected<device::Gpu*> Job::Impl::GpuOfCall(device::StreamHandle stream,
                                            std::span<const void* const> buffers) {
  if (GpuIfOpen() != nullptr || config_.text(KnobId::kGpu) == "off") return Gpu(-1);
  const std::string library = GpuLibrary();
  for (const void* const buffer : buffers) {
    if (buffer == nullptr) continue;
    const Expected<device::PointerFacts> facts = device::IdentifyPointer(library, buffer);
    if (facts.ok() && facts->kind == device::PointerKind::kDevice) return Gpu(facts->device);
  }
  return Gpu(device::DeviceOfStream(library, stream));
}

void Job::Impl::LookForGpu() {
  const std::string& library = config_.text(KnobId::kGpu);
  if (library == "off") return;
  if (library != "auto" || device::DriverIsLoaded()) process_uses_gpu_ = true;
}

Expected<void*> Job::Impl::MemAllocDevice(size_t bytes, int32_t device) {
  const Expected<device::Gpu*> gpu = Gpu(device);
  if (!gpu.ok()) return gpu.status();
  const Expected<device::SharedBlock> made = (*gpu)->AllocateShared(bytes);
  if (!made.ok()) return made.status();
  transport::UniqueFd shown(made->descriptor);
  std::shared_ptr<device::Gpu> owner;
  {
    const JobLock lock(mutex_);
    owner = driver_->accelerator()->shared_gpu();
  }
  const std::shared_ptr<void> memory(
      made->address, [owner](void* address) { static_cast<void>(owner->FreeShared(address)); });
  exports_->Add(static_cast<std::byte*>(made->address), made->bytes, std::move(shown), memory);
  return made->address;
}

// ---- calls

// Without the lock. Of a broken context nothing comes any more, so the others are not to wait for
// this member; whatever else the driver says of a stream is the call's alone.
Status Job::Impl::Heed(Status said) {
  if (said.code() != Code::kDevice || gpu_.load(std::memory_order_acquire)->Health().ok())
    return said;
  static_cast<void>(Abort(said.text(), Code::kDevice));
  return said;
}

Status Job::Impl::LookForGraphs(std::span<const OpPtr> ops) {
  device::Gpu* const gpu = gpu_.load(std::memory_order_acquire);
  const JobUnlock without(mutex_, JobUnlock::Back::kAsking);
  for (const OpPtr& op : ops) {
    if (!op->request.on_stream) continue;
    const Expected<bool> captured = gpu->Captures(op->request.stream);
    FTAR_RETURN_IF_ERROR(Heed(captured.status()));
    op->in_graph = *captured;
  }
  return Status::Ok();
}

Status Job::Impl::PutGate(const Op& op, device::Gate* gate) {
  device::Gpu* const gpu = gpu_.load(std::memory_order_acquire);
  const JobUnlock without(mutex_, JobUnlock::Back::kAsking);
  return Heed(gpu->EnqueueGate(op.request.stream, gate, op.request.device_outcome));
}

// All that may be refused before anything is held: whether a graph makes the calls, and gates.
Status Job::Impl::TakeGates(std::span<const OpPtr> ops) {
  FTAR_RETURN_IF_ERROR(LookForGraphs(ops));
  for (const OpPtr& op : ops) {
    if (!op->request.on_stream) continue;
    const Expected<device::Gate*> gate = gates_->Take();
    if (!gate.ok()) return gate.status();
    op->gate = *gate;
  }
  return Status::Ok();
}

// The driver may keep this thread until the stream gets on (its queue is full, or launches block),
// and that may take an operation of this very call: so it is held before its stream hears of it.
Status Job::Impl::EnterStream(const GroupPtr& group, const OpPtr& op) {
  device::Gate* const gate = op->gate;
  if (gate != nullptr && !op->in_graph) AwaitRoom(op->request.stream);
  if (!op->in_graph && !ended_.ok()) {
    EndWith(op, ended_);  // its stream passes an open gate
  } else if (!op->in_graph) {
    Hold(Now(), groups_[group->key], op);
  }
  if (gate == nullptr) return Status::Ok();
  if (op->gate != nullptr && !op->in_graph) {
    CloseGate(op);
    const Predicate stays = [this]() FTAR_REQUIRES(mutex_) {
      return driver_->accelerator()->Stays() || !ended_.ok();
    };
    kernel_comes_ = kernel_comes_ ? DriveUntil(stays, Now() + kStayNs, Callbacks::kLeave) : stays();
  }
  WakeIfNeeded();
  const Status put = PutGate(*op, gate);
  if (put.ok() && op->in_graph) NoteCaptured(group, op);
  return put;
}

// Calls get onto their streams in the order in which they begin. Two threads' on one stream, the
// wrong way round there, would wait for each other; so a group's are put there one at a time.
void Job::Impl::AwaitTurn(const GroupState& state) {
  const auto mine = [&]() FTAR_REQUIRES(mutex_) { return state.entering == 0 || IsOver(); };
  while (!mine()) turn_.WaitUntil(mutex_, Now() + 100 * kMillisecond);
}

// Until the stream waits for few enough operations.
void Job::Impl::AwaitRoom(device::StreamHandle stream) {
  const Predicate room = [this, stream]() FTAR_REQUIRES(mutex_) {
    return closed_gates_.On(stream) < kClosedGatesMax || !ended_.ok();
  };
  while (!room() && !forked()) DriveUntil(room, Now() + kSecond, Callbacks::kLeave);
}

// What has been captured is called when its graph is launched, and is done with as far as this call
// goes.
void Job::Impl::NoteCaptured(const GroupPtr& group, const OpPtr& op) {
  captured_.push_back({group, op->request, op->gate});
  stream_calls_.LookAt(0);
  op->gate = nullptr;
  op->status = Status(Code::kState, "op",
                      "the call was captured: a graph makes it, at every launch, and "
                      "ftarGroupOutcome and device_outcome tell of each");
  op->outcome.status = Code::kState;
  op->done.store(true, std::memory_order_release);
}

Status Job::Impl::EnterStreams(const GroupPtr& group, std::span<const OpPtr> ops) {
  try {
    for (const OpPtr& op : ops) FTAR_RETURN_IF_ERROR(EnterStream(group, op));
  } catch (...) {
    return {Code::kMemory, "no memory left"};
  }
  return Status::Ok();
}

// Some of them at least are on streams. What has begun cannot be taken back: if the rest fails this
// member would be calls apart from the others, so it is out, and all calls are made and end so.
Status Job::Impl::StartOnStreams(const GroupPtr& group, std::span<const OpPtr> ops) {
  GroupState& state = groups_[group->key];
  stream_calls_.Enter();
  AwaitTurn(state);
  ++state.entering;
  const Undo entered([this, &state]() FTAR_REQUIRES(mutex_) {
    if (stream_calls_.LeaveAsLast()) delivered_ = true;
    if (--state.entering == 0) turn_.NotifyAll();
  });
  Code code = Code::kMemory;
  Undo undo([&]() FTAR_REQUIRES(mutex_) { LetGo(state, ops, code); });
  Status said = TakeGates(ops);
  if (said.ok()) said = CheckStart(group);
  if (said.ok()) said = EnterStreams(group, ops);
  const bool begun = std::ranges::any_of(ops, [](const OpPtr& op) {
    return op->begun || (op->done.load(std::memory_order_relaxed) && !op->in_graph);
  });
  code = said.code();
  if (!said.ok() && !begun) return said;
  undo.Keep();
  if (said.ok()) {
    TryStartHeld(Now(), state);
    return said;
  }
  EndHere(code, said.text());
  for (const OpPtr& op : ops) EndWith(op, said);
  return Status::Ok();
}

// As long as a stream waits, somebody's cudaFree may keep the driver: kernels that need no launch
// are to be there.
void Job::Impl::CloseGate(const OpPtr& op) {
  const bool first = closed_gates_.none();
  closed_gates_.Close(op->request.stream);
  op->holds = true;
  CheckQueues();
  if (first) driver_->accelerator()->Hold(true);
}

// One queue for all is warned of when the GPU is opened.
void Job::Impl::CheckQueues() {
  const size_t queues = GpuIfOpen()->facts().queues;
  const size_t ours = config_.text(KnobId::kGpuExecutor) == "resident" ? 2 : 1;
  if (said_.crowded || queues == 1 || closed_gates_.streams() + ours <= queues) return;
  said_.crowded = true;
  log_.Warn("runtime",
            std::to_string(closed_gates_.streams()) + " streams wait at once, and the GPU has " +
                std::to_string(queues) +
                " queues: one that waits may hold up another one, or the kernels that it "
                "waits for; set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts");
}

void Job::Impl::LetKernelGo(const OpPtr& op) {
  if (!std::exchange(op->holds, false)) return;
  closed_gates_.Open(op->request.stream);
  Accelerator* const accelerator = driver_->accelerator();
  if (!closed_gates_.none() || accelerator == nullptr) return;
  kernel_comes_ = kernel_comes_ || accelerator->Stays();
  accelerator->Hold(false);
}

// A call that fails: what has not begun never does, and streams that know gates pass them.
void Job::Impl::LetGo(GroupState& state, std::span<const OpPtr> ops, Code why) {
  const uint64_t first = ops.front()->handle, last = ops.back()->handle;
  stream_calls_.LetGo(std::erase_if(state.held, [first, last](const HeldCall& held) {
    return held.op->handle >= first && held.op->handle <= last;
  }));
  for (const OpPtr& op : ops) {
    if (op->gate == nullptr || op->begun) continue;
    device::Gate* const gate = std::exchange(op->gate, nullptr);
    if (op->holds || op->in_graph) {
      LetKernelGo(op);
      gates_->Open(gate, Refused(why), op->in_graph);
    } else {
      gates_->GiveBack(gate);
    }
  }
}

void Job::Impl::Hold(TimeNs now, GroupState& state, const OpPtr& op) {
  state.held.push_back({op, !op->request.on_stream});
  stream_calls_.Hold(now);
}

// A stream waits until its call is through: streams that are at two calls at once wait for each
// other in neither order, and who is first may differ between members. Of calls that graphs do not
// make the order is that of the calls.
void Job::Impl::CheckOrder(const GroupState& state, const OpPtr& op) {
  if (said_.disordered || op->gate == nullptr) return;
  said_.disordered = std::ranges::any_of(state.ops, [&op](const OpPtr& other) {
    return other->gate != nullptr && (other->in_graph || op->in_graph);
  });
  if (!said_.disordered) return;
  log_.Warn("runtime", "a graph's call in group '" + state.name +
                           "' begins beside another one: no stream says which is first, and other "
                           "members may add up different ones; use a group for each");
}

// In the order of the calls, which is the same on all members. Whoever finds bytes of its own still
// in use waits for that operation's end: its stream says that it may.
bool Job::Impl::StartHeld(TimeNs now, GroupState& state) {
  bool any = false;
  while (!state.held.empty()) {
    HeldCall& next = state.held.front();
    if (!next.ready) next.ready = GatePool::TakeReady(next.op->gate);
    if (!next.ready || !CheckOverlap({&next.op, 1}).ok()) break;
    CheckOrder(state, next.op);
    Enlist({&next.op, 1});  // without memory it stays held
    const OpPtr op = std::move(next.op);
    state.held.pop_front();
    stream_calls_.LetGo(1);
    Launch(now, op);
    any = true;
  }
  if (!stream_calls_.holds()) delivered_ = true;  // whoever waits for streams looks again
  return any;
}

// Behind a call, which is not refused any more: without memory it is done again soon.
void Job::Impl::TryStartHeld(TimeNs now, GroupState& state) {
  try {
    StartHeld(now, state);
  } catch (...) {
    stream_calls_.LookAt(now);
  }
}

// Whether streams have come to all calls that were made on them.
bool Job::Impl::StreamsArrived() const { return stream_calls_.arrived() || IsOver(); }

// A graph has come to a call of its own: one more operation, as if it had been called now. It goes
// on where the call is refused, also for want of memory.
void Job::Impl::Replay(TimeNs now, const Captured& captured) {
  OpPtr op;
  Code code = Code::kMemory;
  Undo refused([&]() FTAR_REQUIRES(mutex_) {
    if (op != nullptr) LetKernelGo(op);
    gates_->Open(captured.gate, Refused(code), /*again=*/true);
  });
  Status usable = CheckStart(captured.group);
  if (usable.ok()) {
    op = NewOp();
    op->request = captured.request;
    GroupState& state = groups_[captured.group->key];
    usable = Prepare(now, state, captured.group->key, op.get());
    if (usable.ok()) {
      op->gate = captured.gate;
      op->in_graph = true;
      CloseGate(op);
      // Ahead of calls to which no stream has come: theirs may be waiting behind this one.
      const auto place = std::find_if(state.held.begin(), state.held.end(),
                                      [](const HeldCall& held) { return !held.ready; });
      state.held.insert(place, {op, true});
      refused.Keep();
      stream_calls_.HoldReady();
      fast_.last = nullptr;
    }
  }
  if (!usable.ok()) code = usable.code();
}

bool Job::Impl::PumpStreams(TimeNs now) {
  if (!stream_calls_.holds() && captured_.empty()) {
    stream_calls_.LookAt(kNever);
    return false;
  }
  bool any = false;
  for (const Captured& captured : captured_) {
    if (!GatePool::TakeReady(captured.gate)) continue;
    Replay(now, captured);
    any = true;
  }
  for (auto& [key, state] : groups_) any |= StartHeld(now, state);
  stream_calls_.Looked(now, any);
  return any;
}

void Job::Impl::OpenGate(const OpPtr& op) {
  LetKernelGo(op);
  gates_->Open(std::exchange(op->gate, nullptr), ToGate(op->outcome), op->in_graph);
}

}  // namespace ftar::runtime
