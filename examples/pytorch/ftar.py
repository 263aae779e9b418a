"""libftar from Python, by ctypes alone: the structs of ftar.h, and a class for each handle.

Buffers are addresses: a tensor's data_ptr(), or Memory.address. Calls release the interpreter's lock. An error of the library is an
Error with its text; a wait that ended before its operation is waited for again.
"""
import ctypes
import ctypes.util
import math
import os
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

OK, IN_PROGRESS, TIMEOUT = 0, 1, 2
ERR_MISMATCH, ERR_ABSENT, ERR_EVICTED, ERR_QUORUM, ERR_COORDINATOR = 200, 202, 500, 600, 601
F32, F64, F16, BF16, F8E4M3, F8E5M2, I8, U8, I32, U32, I64, U64 = range(12)
SUM, PROD, MIN, MAX, AVG, WAVG = range(6)
ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, BARRIER = range(5)
MEM_AUTO, MEM_HOST, MEM_CUDA = range(3)
STREAM_NONE, STREAM_CUDA = range(2)
NO_SEQ = 2**64 - 1


class Id(ctypes.Structure):
    _fields_ = [("hi", c_uint64), ("lo", c_uint64)]


class Sized(ctypes.Structure):
    """A struct that begins with its size; `defaults` are what its _INIT in ftar.h sets and is not 0."""
    defaults = {}

    def __init__(self, **fields):
        super().__init__(size=sizeof(type(self)), **{**self.defaults, **fields})


class ErrorInfo(Sized):
    _fields_ = [("size", c_size_t), ("code", c_int32), ("rank", c_int32), ("replica", c_int32), ("shard", c_int32), ("member", Id),
                ("epoch", c_uint64), ("seq", c_uint64), ("last_progress_ns", c_int64), ("host", c_char * 64), ("device", c_char * 32),
                ("stage", c_char * 24), ("argument", c_char * 32), ("text", c_char * 512)]
    defaults = {"rank": -1, "replica": -1, "shard": -1, "seq": NO_SEQ}


class Event(Sized):
    _fields_ = [("size", c_size_t), ("type", c_int32), ("cause", c_int32), ("epoch", c_uint64), ("seq", c_uint64),
                ("time_ns", c_int64), ("who", ErrorInfo), ("detail", c_void_p)]
    defaults = {"seq": NO_SEQ, "who": ErrorInfo()}


class JobConfig(Sized):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("replica", c_int32), ("shard", c_int32), ("replicas", c_int32),
                ("shards", c_int32), ("min_replicas", c_int32), ("name", c_char_p), ("coordinator", c_char_p), ("host", c_char_p),
                ("rack", c_char_p), ("config", c_void_p), ("timeout_ns", c_int64), ("on_event", c_void_p), ("user", c_void_p)]
    defaults = {"replica": -1, "shard": -1, "replicas": -1, "shards": -1, "min_replicas": -1}


class MemberInfo(Sized):
    _fields_ = [("size", c_size_t), ("id", Id), ("rank", c_int32), ("replica", c_int32), ("shard", c_int32), ("flags", c_uint32),
                ("weight", c_double), ("joined_epoch", c_uint64), ("host", c_char * 64), ("first_seq", c_uint64)]
    defaults = {"rank": -1, "replica": -1, "shard": -1}


class ViewInfo(Sized):
    _fields_ = [("size", c_size_t), ("epoch", c_uint64), ("members", c_int32), ("replicas", c_int32), ("my_rank", c_int32),
                ("shards", c_int32), ("first_seq", c_uint64), ("my_id", Id)]
    defaults = {"my_rank": -1}


class GroupConfig(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("shard", c_int32), ("flags", c_uint32), ("window", c_int32),
                ("priority", c_int32)]
    defaults = {"shard": -1}


class GroupInfo(Sized):
    _fields_ = [("size", c_size_t), ("my_id", Id), ("my_rank", c_int32), ("shard", c_int32), ("members", c_int32),
                ("first_seq", c_uint64), ("next_seq", c_uint64), ("epoch", c_uint64)]
    defaults = {"my_rank": -1}


class StepConfig(Sized):
    _fields_ = [("size", c_size_t), ("step", c_int64), ("weight", c_double), ("flags", c_uint32), ("hints", c_void_p),
                ("hint_count", c_size_t)]
    defaults = {"step": -1, "weight": math.nan}


class StepInfo(Sized):
    _fields_ = [("size", c_size_t), ("step", c_int64), ("epoch", c_uint64), ("participants", c_int32), ("joined", c_int32),
                ("left", c_int32), ("source", c_int32), ("weight_sum", c_double), ("advice_microbatches", c_int32),
                ("rank", c_int32)]
    defaults = {"source": -1, "rank": -1}


class MemDesc(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("device", c_int32), ("numa", c_int32), ("flags", c_uint32)]
    defaults = {"device": -1, "numa": -1}


class Outcome(Sized):
    _fields_ = [("size", c_size_t), ("status", c_int32), ("flags", c_uint32), ("epoch", c_uint64), ("seq", c_uint64),
                ("participants", c_int32), ("attempts", c_int32), ("plan", c_int32), ("slowest_rank", c_int32),
                ("weight_sum", c_double), ("bytes_resent", c_uint64), ("digest", c_uint64), ("start_ns", c_int64),
                ("complete_ns", c_int64), ("delivered_ns", c_int64), ("arrival_skew_ns", c_int64), ("culprit", Id)]
    defaults = {"slowest_rank": -1}


class DeviceOutcome(ctypes.Structure):
    _fields_ = [("status", c_int32), ("participants", c_int32), ("weight_sum", c_double), ("seq", c_uint64), ("epoch", c_uint64)]


class OpDesc(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("dtype", c_int32), ("redop", c_int32), ("flags", c_uint32),
                ("send", c_void_p), ("recv", c_void_p), ("count", c_uint64), ("root", c_int32), ("priority", c_int32),
                ("weight", c_double), ("scale", c_double), ("timeout_ns", c_int64), ("tag", c_uint64), ("send_mem", c_void_p),
                ("recv_mem", c_void_p), ("stream_kind", c_int32), ("device", c_int32), ("stream", c_void_p), ("accumulate", c_int32),
                ("wire", c_int32), ("plan", c_char_p), ("device_outcome", c_void_p), ("on_done", c_void_p), ("user", c_void_p),
                ("epoch", c_uint64)]
    defaults = {"weight": math.nan, "scale": 1.0, "device": -1, "accumulate": -1, "wire": -1}


STRUCTS = {"ftarId": Id, "ftarErrorInfo": ErrorInfo, "ftarEvent": Event, "ftarJobConfig": JobConfig, "ftarMemberInfo": MemberInfo,
           "ftarViewInfo": ViewInfo, "ftarGroupConfig": GroupConfig, "ftarGroupInfo": GroupInfo, "ftarStepConfig": StepConfig,
           "ftarStepInfo": StepInfo, "ftarMemDesc": MemDesc, "ftarOutcome": Outcome, "ftarDeviceOutcome": DeviceOutcome,
           "ftarOpDesc": OpDesc}

FUNCTIONS = {
    "ftarConfigCreate": [POINTER(c_void_p)], "ftarConfigSet": [c_void_p, c_char_p, c_char_p], "ftarConfigDestroy": [c_void_p],
    "ftarGetLastError": [POINTER(ErrorInfo)],
    "ftarJobJoin": [POINTER(JobConfig), POINTER(c_void_p)], "ftarJobLeave": [c_void_p, c_int64], "ftarJobDestroy": [c_void_p],
    "ftarJobGetCounter": [c_void_p, c_char_p, POINTER(c_uint64)],
    "ftarGroupOpen": [c_void_p, POINTER(GroupConfig), POINTER(c_void_p)], "ftarGroupClose": [c_void_p],
    "ftarGroupGetInfo": [c_void_p, POINTER(GroupInfo)], "ftarGroupOutcome": [c_void_p, c_uint64, POINTER(Outcome)],
    "ftarStepBegin": [c_void_p, POINTER(StepConfig), POINTER(StepInfo)],
    "ftarMemAlloc": [c_void_p, c_size_t, POINTER(MemDesc), POINTER(c_void_p)], "ftarMemFree": [c_void_p, c_void_p],
    "ftarOpStart": [c_void_p, POINTER(OpDesc), POINTER(c_void_p)], "ftarOpWait": [c_void_p, c_int64, POINTER(Outcome)],
    "ftarOpParticipants": [c_void_p, POINTER(MemberInfo), c_size_t, c_size_t, POINTER(c_size_t)], "ftarOpRelease": [c_void_p],
}


class Error(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def built(place):
    """What is built of this source, if it is there."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release", place)
    return path if os.path.exists(path) else None


def load():
    """The library: $LIBFTAR, else the installed one, else what is built here."""
    path = os.environ.get("LIBFTAR") or ctypes.util.find_library("ftar") or built("lib/libftar.so") or "libftar.so"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise OSError(f"{error}; set LIBFTAR to where libftar.so is") from None
    for name, arguments in FUNCTIONS.items():
        getattr(library, name).argtypes = arguments
    library.ftarResultString.restype = c_char_p
    return library


_library = None


def lib():
    global _library
    _library = _library or load()
    return _library


def check(code):
    """Raises what the thread's last error says unless all is well."""
    if code in (OK, IN_PROGRESS):
        return code
    info = ErrorInfo()
    lib().ftarGetLastError(byref(info))
    text = info.text.decode(errors="replace") if info.code == code else ""
    raise Error(code, f"{lib().ftarResultString(code).decode()}: {text}")


class Job:
    """This member. Who it is and where to meet comes from the environment (FTAR_REPLICA, FTAR_REPLICAS, FTAR_COORDINATOR) or fields."""

    def __init__(self, knobs=None, **fields):
        self.handle, knob_list = c_void_p(), c_void_p()
        check(lib().ftarConfigCreate(byref(knob_list)))
        try:
            for name, value in (knobs or {}).items():
                check(lib().ftarConfigSet(knob_list, name.encode(), str(value).encode()))
            check(lib().ftarJobJoin(byref(JobConfig(config=knob_list, **fields)), byref(self.handle)))
        finally:
            lib().ftarConfigDestroy(knob_list)

    def group(self, name=None, window=0, priority=0):
        """The group of that name, which every member of the column opens alike; None: the default one. 0: the knob `window`."""
        return Group(self, name, window, priority)

    def begin_step(self):
        """Waits for as long as it takes."""
        info, code = StepInfo(), ERR_QUORUM
        while code in (ERR_QUORUM, ERR_COORDINATOR):
            code = lib().ftarStepBegin(self.handle, None, byref(info))
        check(code)
        return info

    def counter(self, name):
        value = c_uint64()
        check(lib().ftarJobGetCounter(self.handle, name.encode(), byref(value)))
        return value.value

    def alloc(self, count, cuda=False):
        """Memory for so many floats that other members on this host read where it lies."""
        return Memory(self, count, cuda)

    def leave(self, seconds=30):
        check(lib().ftarJobLeave(self.handle, int(seconds * 1e9)))

    def destroy(self):
        """Its memory goes with it."""
        lib().ftarJobDestroy(self.handle)
        self.handle = c_void_p()


class Memory:
    """Floats of the job's. A GPU's can be a tensor: torch.as_tensor(memory, device="cuda"); the host's: torch.frombuffer(...)."""

    def __init__(self, job, count, cuda):
        where, address = MemDesc(kind=MEM_CUDA if cuda else MEM_HOST), c_void_p()
        check(lib().ftarMemAlloc(job.handle, max(4 * count, 1), byref(where), byref(address)))
        self.job, self.count, self.cuda, self.address = job, count, cuda, address.value

    @property
    def __cuda_array_interface__(self):
        if not self.cuda:
            raise AttributeError("host memory")
        return {"shape": (self.count,), "typestr": "<f4", "data": (self.address, False), "version": 3}

    def floats(self):
        """As an array that the host can use."""
        assert not self.cuda
        return (c_float * self.count).from_address(self.address)


class Group:
    """A stream of operations of its own: what is urgent has a group with a higher priority (-100 to 100)."""

    def __init__(self, job, name=None, window=0, priority=0):
        self.handle = c_void_p()
        config = GroupConfig(name=None if name is None else name.encode(), window=window, priority=priority)
        check(lib().ftarGroupOpen(job.handle, byref(config), byref(self.handle)))

    def start(self, **fields):
        """A collective, by the fields of ftarOpDesc; stream=None is without a stream."""
        stream = fields.pop("stream", None)
        if stream is not None:
            fields.update(stream_kind=STREAM_CUDA, stream=stream)
        handle = c_void_p()
        check(lib().ftarOpStart(self.handle, byref(OpDesc(**fields)), byref(handle)))
        return Op(handle)

    def allreduce(self, address, count, redop=AVG, dtype=F32, stream=None):
        return self.start(kind=ALLREDUCE, send=address, recv=address, count=count, redop=redop, dtype=dtype, stream=stream)

    def broadcast(self, address, count, step, root=None, dtype=F32, stream=None):
        """From the member that `step` (begin_step) names as the source, or another rank of its view."""
        return self.start(kind=BROADCAST, send=address, recv=address, count=count, root=step.source if root is None else root,
                          epoch=step.epoch, dtype=dtype, stream=stream)

    def share_state(self, address, count, step, dtype=F32, stream=None):
        """Brings newcomers the state, from whoever has it and lives; to be called by all behind begin_step. ERR_ABSENT: nobody has it."""
        if step.joined == 0:
            return
        others = [rank for rank in range(step.participants - step.joined) if rank != step.source]
        for source in [step.source, *others] if step.source >= 0 else []:
            try:
                self.broadcast(address, count, step, source, dtype, stream).finish(release=True)
                return
            except Error as error:
                if error.code != ERR_ABSENT:
                    raise
        raise Error(ERR_ABSENT, "all who had the state have gone")

    def info(self):
        info = GroupInfo()
        check(lib().ftarGroupGetInfo(self.handle, byref(info)))
        return info

    def close(self):
        lib().ftarGroupClose(self.handle)


class Op:
    def __init__(self, handle):
        self.handle = handle

    def wait(self, seconds=5):
        """Its outcome, once it has one; None: not within the time, and it lives on. Raises what is no success."""
        outcome = Outcome()
        code = lib().ftarOpWait(self.handle, int(seconds * 1e9), byref(outcome))
        if code in (IN_PROGRESS, TIMEOUT, ERR_QUORUM, ERR_COORDINATOR):
            return None
        check(code)
        return outcome

    def finish(self, release=False):
        """Waits for as long as it takes."""
        try:
            outcome = None
            while outcome is None:
                outcome = self.wait()
            return outcome
        finally:
            if release:
                self.release()

    def participants(self, capacity=1024):
        """The replicas whose input counts."""
        members, count = (MemberInfo * capacity)(), c_size_t()
        check(lib().ftarOpParticipants(self.handle, members, sizeof(MemberInfo), capacity, byref(count)))
        return [member.replica for member in members[:count.value] if member.weight > 0]

    def release(self):
        lib().ftarOpRelease(self.handle)
