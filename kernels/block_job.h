// The block job, second of the kernels' layers: what one thread of a block does with one chunk.
//
// A function of (job, chunk, thread, threads) without any synchronisation, so that the host tests
// run the very same tiling, heads and tails for any grid. A thread reads all sources of an element
// before it writes it, and no other thread touches that element: a destination may be a source.
// Nothing is owned.
#ifndef FTAR_KERNELS_BLOCK_JOB_H_
#define FTAR_KERNELS_BLOCK_JOB_H_

#include "kernels/arith.h"
#include "kernels/job.h"

#if defined(__CUDACC__)
#define FTAR_UNROLL _Pragma("unroll")
#define FTAR_NO_UNROLL _Pragma("unroll 1")
#else
#define FTAR_UNROLL
#define FTAR_NO_UNROLL
#endif

namespace ftar::kernels {

struct alignas(16) Pack {
  uint32_t word[4];
};

// --- Access. Data goes past once: loads and stores are marked as streaming. Addresses are global.

FTAR_HD Pack LoadPack(const void* from) {
  Pack pack;
#if defined(__CUDA_ARCH__)
  const uint4 raw = __ldcs(static_cast<const uint4*>(from));
  pack.word[0] = raw.x;
  pack.word[1] = raw.y;
  pack.word[2] = raw.z;
  pack.word[3] = raw.w;
#else
  std::memcpy(&pack, from, sizeof(pack));
#endif
  return pack;
}

FTAR_HD void StorePack(void* to, const Pack& pack) {
#if defined(__CUDA_ARCH__)
  __stcs(static_cast<uint4*>(to),
         make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]));
#else
  std::memcpy(to, &pack, sizeof(pack));
#endif
}

#if defined(__CUDA_ARCH__)
// The type by which the streaming intrinsics know a storage of as many bytes.
template <typename Storage>
struct Streamed {
  using Type = std::conditional_t<sizeof(Storage) == 8, unsigned long long, Storage>;
};
#endif

template <typename Storage>
FTAR_HD Storage LoadElement(const void* from, bool by_bytes) {
#if defined(__CUDA_ARCH__)
  if (!by_bytes) {
    return static_cast<Storage>(__ldcs(static_cast<const typename Streamed<Storage>::Type*>(from)));
  }
  Storage value = 0;
  const auto* bytes = static_cast<const unsigned char*>(from);
  FTAR_UNROLL for (int i = 0; i < static_cast<int>(sizeof(Storage)); ++i) {
    value |= static_cast<Storage>(static_cast<Storage>(__ldcs(bytes + i)) << (8 * i));
  }
  return value;
#else
  static_cast<void>(by_bytes);
  Storage value;
  std::memcpy(&value, from, sizeof(value));
  return value;
#endif
}

template <typename Storage>
FTAR_HD void StoreElement(void* to, Storage value, bool by_bytes) {
#if defined(__CUDA_ARCH__)
  if (!by_bytes) {
    using Type = typename Streamed<Storage>::Type;
    __stcs(static_cast<Type*>(to), static_cast<Type>(value));
    return;
  }
  auto* bytes = static_cast<unsigned char*>(to);
  FTAR_UNROLL for (int i = 0; i < static_cast<int>(sizeof(Storage)); ++i) {
    __stcs(bytes + i, static_cast<unsigned char>(value >> (8 * i)));
  }
#else
  static_cast<void>(by_bytes);
  std::memcpy(to, &value, sizeof(value));
#endif
}

// --- Packs of elements.

template <typename Storage>
FTAR_HD Storage Element(const Pack& pack, int i) {
  if constexpr (sizeof(Storage) == 8) {
    return static_cast<uint64_t>(pack.word[2 * i + 1]) << 32 | pack.word[2 * i];
  } else {
    constexpr int kPerWord = 4 / sizeof(Storage);
    const uint32_t word = pack.word[i / kPerWord];
    return static_cast<Storage>(word >> (i % kPerWord * 8 * static_cast<int>(sizeof(Storage))));
  }
}

// The pack is zero where it has not been set yet.
template <typename Storage>
FTAR_HD void SetElement(Pack* pack, int i, Storage value) {
  if constexpr (sizeof(Storage) == 8) {
    pack->word[2 * i] = static_cast<uint32_t>(value);
    pack->word[2 * i + 1] = static_cast<uint32_t>(value >> 32);
  } else {
    constexpr int kPerWord = 4 / sizeof(Storage);
    pack->word[i / kPerWord] |= static_cast<uint32_t>(value)
                                << (i % kPerWord * 8 * static_cast<int>(sizeof(Storage)));
  }
}

// --- The checksum. Its words begin at the result's first byte, which a pack need not do: a word of
// memory that begins `phase` bytes into one of them is turned so that each byte counts in its
// place.

FTAR_HD uint32_t Turned(uint32_t word, uint32_t phase) {
  return phase == 0 ? word : word << (8 * phase) | word >> (32 - 8 * phase);
}

FTAR_HD void SumPack(const Pack& pack, uint32_t phase, uint32_t* sum) {
  FTAR_UNROLL for (int i = 0; i < 4; ++i)* sum += Turned(pack.word[i], phase);
}

template <typename Storage>
FTAR_HD void SumElement(Storage value, uint64_t index, uint32_t* sum) {
  if constexpr (sizeof(Storage) == 8) *sum += static_cast<uint32_t>(value >> 32);
  const uint32_t phase = static_cast<uint32_t>(index * sizeof(Storage)) & 3;
  *sum += static_cast<uint32_t>(value) << (8 * phase);
}

// --- A thread's place: either a pack or an element, by number.

template <bool vector>
FTAR_HD uint64_t FirstElement(const Job& job, uint64_t unit, int per_pack) {
  return vector ? job.head + unit * static_cast<uint64_t>(per_pack) : unit;
}

// How many elements a thread takes at a time.
template <typename F, bool vector>
inline constexpr int kElements = vector ? F::kPerPack : 1;

// Elements as they lie in memory.
template <typename Storage, int elements>
struct Raw {
  static constexpr int kPacks = elements * static_cast<int>(sizeof(Storage)) / 16;
  Pack pack[kPacks];
  FTAR_HD void Load(const Job&, const void* from, uint64_t first) {
    const auto* bytes = static_cast<const unsigned char*>(from) + first * sizeof(Storage);
    FTAR_UNROLL for (int i = 0; i < kPacks; ++i) pack[i] = LoadPack(bytes + 16 * i);
  }
  FTAR_HD Storage Get(int i) const {
    constexpr int kPerPack = 16 / sizeof(Storage);
    return Element<Storage>(pack[i / kPerPack], i % kPerPack);
  }
};

template <typename Storage>
struct Raw<Storage, 1> {
  Storage value;
  FTAR_HD void Load(const Job& job, const void* from, uint64_t first) {
    const auto* bytes = static_cast<const unsigned char*>(from) + first * sizeof(Storage);
    value = LoadElement<Storage>(bytes, job.by_bytes);
  }
  FTAR_HD Storage Get(int) const { return value; }
};

// Writes `elements` results to all destinations.
template <typename Storage, int elements>
FTAR_HD void StoreAll(const Job& job, uint64_t first, const Storage (&result)[elements],
                      uint32_t* sum) {
  const uint64_t at = first * sizeof(Storage);
  if constexpr (elements == 1) {
    if (job.checksum != nullptr) SumElement(result[0], first, sum);
    FTAR_NO_UNROLL for (uint32_t d = 0; d < job.destinations; ++d) {
      StoreElement(static_cast<unsigned char*>(job.destination[d]) + at, result[0], job.by_bytes);
    }
  } else {
    constexpr int kPerPack = 16 / sizeof(Storage);
    FTAR_UNROLL for (int p = 0; p < elements / kPerPack; ++p) {
      Pack pack = {};
      FTAR_UNROLL for (int i = 0; i < kPerPack; ++i) SetElement(&pack, i, result[p * kPerPack + i]);
      if (job.checksum != nullptr) SumPack(pack, static_cast<uint32_t>(at) & 3, sum);
      FTAR_NO_UNROLL for (uint32_t d = 0; d < job.destinations; ++d) {
        StorePack(static_cast<unsigned char*>(job.destination[d]) + at + 16 * p, pack);
      }
    }
  }
}

template <typename F, typename Op, int elements>
FTAR_HD void FinishAndStore(const Job& job, uint64_t first,
                            const typename F::Lane (&lane)[elements], uint32_t* sum) {
  typename F::Storage result[elements];
  FTAR_UNROLL for (int i = 0; i < elements; ++i) result[i] = FinishLane<F, Op>(job.finish, lane[i]);
  StoreAll(job, first, result, sum);
}

template <typename F, int elements>
FTAR_HD void StorePartial(const Job& job, uint64_t first, const typename F::Lane (&lane)[elements],
                          uint32_t* sum) {
  using Code = typename F::PartialCode;
  typename Code::Storage result[elements];
  FTAR_UNROLL for (int i = 0; i < elements; ++i) result[i] = StoredLane<Code>(lane[i]);
  StoreAll(job, first, result, sum);
}

// --- Tiles: `unroll` places of a thread, `step` units apart.

// Two sources of the type itself, nothing to finish: a ring's step.
template <typename F, typename Op>
struct TwoTile {
  template <int unroll, bool vector>
  static FTAR_HD void Run(const Job& job, uint64_t unit, uint64_t step, uint32_t* sum) {
    constexpr int kCount = kElements<F, vector>;
    Raw<typename F::Storage, kCount> a[unroll], b[unroll];
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      const uint64_t first = FirstElement<vector>(job, unit + u * step, F::kPerPack);
      a[u].Load(job, job.source[0], first);
      b[u].Load(job, job.source[1], first);
    }
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      typename F::Storage result[kCount];
      FTAR_UNROLL for (int i = 0; i < kCount; ++i) {
        result[i] = StoredLane<typename F::Code>(
            Op::Apply(F::Code::Widen(a[u].Get(i)), F::Code::Widen(b[u].Get(i))));
      }
      StoreAll(job, FirstElement<vector>(job, unit + u * step, F::kPerPack), result, sum);
    }
  }
};

// Source `s` into the lanes: the first one fills them.
template <typename F, typename Op, typename Code, int elements>
FTAR_HD void CombineSource(const Job& job, uint32_t s,
                           const Raw<typename Code::Storage, elements>& raw,
                           typename F::Lane (&lane)[elements]) {
  using Lane = typename F::Lane;
  if constexpr (F::kFloat && Op::kAverages) {
    if (job.weighted) {
      const auto weight = static_cast<Lane>(job.weight[s]);
      FTAR_UNROLL for (int i = 0; i < elements; ++i) {
        const Lane x = Multiply(static_cast<Lane>(Code::Widen(raw.Get(i))), weight);
        lane[i] = s == 0 ? x : Op::Apply(lane[i], x);
      }
      return;
    }
  }
  if (s == 0) {
    FTAR_UNROLL for (int i = 0; i < elements; ++i) lane[i] = Code::Widen(raw.Get(i));
  } else {
    FTAR_UNROLL for (int i = 0; i < elements; ++i) {
      lane[i] = Op::Apply(lane[i], static_cast<Lane>(Code::Widen(raw.Get(i))));
    }
  }
}

// Any number of sources of the type itself. The next source is asked for before the one at hand is
// combined.
template <typename F, typename Op>
struct ManyTile {
  template <int unroll, bool vector>
  static FTAR_HD void Run(const Job& job, uint64_t unit, uint64_t step, uint32_t* sum) {
    constexpr int kCount = kElements<F, vector>;
    using Lane = typename F::Lane;
    using Elements = Raw<typename F::Storage, kCount>;
    Elements next[unroll], now[unroll];
    Lane lane[unroll][kCount] = {};
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      next[u].Load(job, job.source[0], FirstElement<vector>(job, unit + u * step, F::kPerPack));
    }
    FTAR_NO_UNROLL for (uint32_t s = 0; s < job.sources; ++s) {
      FTAR_UNROLL for (int u = 0; u < unroll; ++u) now[u] = next[u];
      if (s + 1 < job.sources) {
        FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
          const uint64_t first = FirstElement<vector>(job, unit + u * step, F::kPerPack);
          next[u].Load(job, job.source[s + 1], first);
        }
      }
      FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
        CombineSource<F, Op, typename F::Code>(job, s, now[u], lane[u]);
      }
    }
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      const uint64_t first = FirstElement<vector>(job, unit + u * step, F::kPerPack);
      FinishAndStore<F, Op>(job, first, lane[u], sum);
    }
  }
};

// Any number of sources, each of the type itself or of partial results; a result of either. With
// one source it is the cast between the two.
template <typename F, typename Op>
struct MixedTile {
  template <int unroll, bool vector>
  static FTAR_HD void Run(const Job& job, uint64_t unit, uint64_t step, uint32_t* sum) {
    constexpr int kCount = kElements<F, vector>;
    using Lane = typename F::Lane;
    using PartialStorage = typename F::PartialCode::Storage;
    Lane lane[unroll][kCount] = {};
    FTAR_NO_UNROLL for (uint32_t s = 0; s < job.sources; ++s) {
      FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
        const uint64_t first = FirstElement<vector>(job, unit + u * step, F::kPerPack);
        if ((job.partial_sources >> s & 1) != 0) {
          Raw<PartialStorage, kCount> raw;
          raw.Load(job, job.source[s], first);
          CombineSource<F, Op, typename F::PartialCode>(job, s, raw, lane[u]);
        } else {
          Raw<typename F::Storage, kCount> raw;
          raw.Load(job, job.source[s], first);
          CombineSource<F, Op, typename F::Code>(job, s, raw, lane[u]);
        }
      }
    }
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      const uint64_t first = FirstElement<vector>(job, unit + u * step, F::kPerPack);
      if (job.partial_result) {
        StorePartial<F>(job, first, lane[u], sum);
      } else {
        FinishAndStore<F, Op>(job, first, lane[u], sum);
      }
    }
  }
};

// Bytes from one source to all destinations, or to none for their checksum.
struct Bytes {
  using Storage = uint8_t;
  static constexpr Dtype kDtype = Dtype::kU8;
  static constexpr int kPerPack = 16;
};

struct CopyTile {
  template <int unroll, bool vector>
  static FTAR_HD void Run(const Job& job, uint64_t unit, uint64_t step, uint32_t* sum) {
    constexpr int kCount = kElements<Bytes, vector>;
    Raw<uint8_t, kCount> raw[unroll];
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      raw[u].Load(job, job.source[0], FirstElement<vector>(job, unit + u * step, 16));
    }
    FTAR_UNROLL for (int u = 0; u < unroll; ++u) {
      const uint64_t first = FirstElement<vector>(job, unit + u * step, 16);
      if constexpr (vector) {
        if (job.checksum != nullptr) SumPack(raw[u].pack[0], static_cast<uint32_t>(first) & 3, sum);
        FTAR_NO_UNROLL for (uint32_t d = 0; d < job.destinations; ++d) {
          StorePack(static_cast<unsigned char*>(job.destination[d]) + first, raw[u].pack[0]);
        }
      } else {
        const uint8_t result[1] = {raw[u].value};
        StoreAll(job, first, result, sum);
      }
    }
  }
};

// --- Chunks.

// Units `begin` to `end`, all threads of a block together.
template <typename Tile, int unroll, bool vector>
FTAR_HD void RunUnits(const Job& job, uint64_t begin, uint64_t end, uint32_t thread,
                      uint32_t threads, uint32_t* sum) {
  const uint64_t tile = static_cast<uint64_t>(threads) * unroll;
  FTAR_NO_UNROLL for (; end - begin >= tile; begin += tile) {
    Tile::template Run<unroll, vector>(job, begin + thread, threads, sum);
  }
  FTAR_NO_UNROLL for (uint64_t unit = begin + thread; unit < end; unit += threads) {
    Tile::template Run<1, vector>(job, unit, threads, sum);
  }
}

// One thread's part of a chunk. What lies before the first pack and behind the last belongs to
// chunk 0, so that exactly one block writes it.
template <typename Tile, int unroll>
FTAR_HD void RunChunk(const Job& job, uint64_t chunk, uint32_t thread, uint32_t threads,
                      uint32_t* sum) {
  const uint64_t begin = chunk * job.chunk;
  const uint64_t end = job.units - begin < job.chunk ? job.units : begin + job.chunk;
  if (!job.vector) {
    RunUnits<Tile, unroll, false>(job, begin, end, thread, threads, sum);
    return;
  }
  RunUnits<Tile, unroll, true>(job, begin, end, thread, threads, sum);
  if (chunk != 0) return;
  FTAR_NO_UNROLL for (uint32_t edge = thread; edge < job.head + job.tail; edge += threads) {
    const uint64_t element = edge < job.head ? edge : job.count - job.tail + (edge - job.head);
    Tile::template Run<1, false>(job, element, threads, sum);
  }
}

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_BLOCK_JOB_H_
