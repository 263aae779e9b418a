"""What train.py trains where PyTorch is not: a line through points, in floats of the library's, on the host or on a GPU.

On a GPU (cuda_runtime=PATH of libcudart.so) the host does the arithmetic on copies, in the order of a stream, as a kernel would.
"""
import ctypes
import hashlib
import random

COUNT, BUCKETS, RATE, MOMENTUM = 3000, 3, 0.02, 0.9
ANY_WAY = 4  # cudaMemcpyDefault


class Host:
    """Floats that the host uses where they lie."""

    def __init__(self, memory):
        self.address, self.values = memory.address, memory.floats()

    def get(self):
        return self.values

    def put(self, first=0, last=None):
        pass


class OnGpu:
    """Floats of the GPU's, and the host's copy of them."""

    def __init__(self, memory, cuda, stream):
        self.address, self.cuda, self.stream = memory.address, cuda, stream
        self.values = (ctypes.c_float * memory.count)()

    def copy(self, to, source, bytes_):
        # First: a copy of memory that is not pinned keeps the driver until its turn has come, and with it the launches of others.
        if self.cuda.cudaStreamSynchronize(self.stream):
            raise RuntimeError("the stream has failed")
        if self.cuda.cudaMemcpyAsync(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(bytes_), ANY_WAY, self.stream):
            raise RuntimeError("cudaMemcpyAsync failed")
        if self.cuda.cudaStreamSynchronize(self.stream):
            raise RuntimeError("the stream has failed")

    def get(self):
        self.copy(ctypes.addressof(self.values), self.address, ctypes.sizeof(self.values))
        return self.values

    def put(self, first=0, last=None):
        last = len(self.values) if last is None else last
        self.copy(self.address + 4 * first, ctypes.addressof(self.values) + 4 * first, 4 * (last - first))


class Model:
    """COUNT weights that shall become 1/1, 1/2, 1/3, .. The state: weights, momenta, updates. Gradients: and the loss, and who asks."""

    def __init__(self, job, device, cuda_runtime):
        self.stream = None
        if device == "cuda":
            try:
                cuda, stream = ctypes.CDLL(cuda_runtime or "libcudart.so"), ctypes.c_void_p()
            except OSError as error:
                raise SystemExit(f"train.py: {error}: name it by --cuda-runtime, or train on the host by --device cpu") from None
            if cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1):
                raise SystemExit("train.py: no GPU that CUDA can use here; --device cpu trains on the host")
            self.stream = stream.value
        state, gradient = (job.alloc(count, cuda=self.stream is not None) for count in (2 * COUNT + 1, COUNT + 2))
        self.state, self.gradient = (Host(m) if self.stream is None else OnGpu(m, cuda, stream) for m in (state, gradient))
        self.state_count = 2 * COUNT + 1
        for i in range(self.state_count):
            self.state.values[i] = 0.0
        self.state.put()
        edges = [COUNT * i // BUCKETS for i in range(BUCKETS)] + [COUNT + 2]
        self.buckets = list(zip(edges, edges[1:]))

    def state_address(self):
        return self.state.address

    def backward(self, step, replica, finish, ready):
        """Gradients of this replica's share of the step; ready(address, count) as soon as a bucket is there."""
        weights, gradient = self.state.get(), self.gradient.values
        noise, loss = random.Random(step * 1000 + replica), 0.0
        for first, last in self.buckets:
            for i in range(first, min(last, COUNT)):
                error = weights[i] - 1.0 / (i + 1)
                loss += error * error
                gradient[i] = 2 * error + (noise.random() - 0.5) * 0.001
            gradient[COUNT], gradient[COUNT + 1] = loss, float(finish)
            self.gradient.put(first, last)
            ready(self.gradient.address + 4 * first, last - first)

    def update(self):
        """One step along the averaged gradients; the loss, and whether somebody asks to finish."""
        state, gradient = self.state.get(), self.gradient.get()
        for i in range(COUNT):
            state[COUNT + i] = MOMENTUM * state[COUNT + i] + gradient[i]
            state[i] -= RATE * state[COUNT + i]
        state[2 * COUNT] += 1
        self.state.put()
        return gradient[COUNT], gradient[COUNT + 1] > 0

    def digest(self):
        return hashlib.sha1(bytes(self.state.get())).hexdigest()[:12]
