// Every way in which one member alone can get a descriptor wrong.
#include "api/op_desc.h"

#include "api/mapped.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/objects.h"

namespace ftar::api {
namespace {

float g_buffer[256];

ftarOpDesc Good() {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = g_buffer;
  desc.recv = g_buffer;
  desc.count = 16;
  return desc;
}

Status Translate(const ftarOpDesc& desc, OpContext context = {4, 1}) {
  runtime::OpRequest request;
  return TranslateOp(desc, "desc", context, &request);
}

struct BadCase {
  const char* name;
  std::function<void(ftarOpDesc*)> spoil;
  const char* argument;
  Code code = Code::kArg;
};

class BadOp : public testing::TestWithParam<BadCase> {};

TEST_P(BadOp, IsRefusedByName) {
  ftarOpDesc desc = Good();
  GetParam().spoil(&desc);
  const Status status = Translate(desc);
  EXPECT_EQ(status.code(), GetParam().code) << status.ToString();
  EXPECT_EQ(status.argument(), GetParam().argument);
  EXPECT_NE(status.text(), "");
}

const double kInf = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    All, BadOp,
    testing::Values(
        BadCase{"kind", [](auto* d) { d->kind = 5; }, "desc.kind"},
        BadCase{"kind_negative", [](auto* d) { d->kind = -1; }, "desc.kind"},
        BadCase{"dtype", [](auto* d) { d->dtype = 12; }, "desc.dtype"},
        BadCase{"dtype_negative", [](auto* d) { d->dtype = -1; }, "desc.dtype"},
        BadCase{"redop", [](auto* d) { d->redop = 6; }, "desc.redop"},
        BadCase{"wavg_of_integers", [](auto* d) { d->redop = FTAR_WAVG, d->dtype = FTAR_I32; },
                "desc.redop"},
        BadCase{"send_null", [](auto* d) { d->send = nullptr; }, "desc.send"},
        BadCase{"recv_null", [](auto* d) { d->recv = nullptr; }, "desc.recv"},
        BadCase{"overlap", [](auto* d) { d->recv = g_buffer + 8; }, "desc.recv"},
        BadCase{"overlap_below", [](auto* d) { d->send = g_buffer + 15; }, "desc.recv"},
        BadCase{"overlap_of_segments",
                [](auto* d) { d->kind = FTAR_REDUCE_SCATTER, d->recv = g_buffer + 48; },
                "desc.recv"},
        BadCase{"count_overflows", [](auto* d) { d->count = UINT64_MAX; }, "desc.count"},
        BadCase{"count_bytes_overflow", [](auto* d) { d->count = UINT64_MAX / 4 + 2; },
                "desc.count"},
        BadCase{"count_times_members_overflows",
                [](auto* d) { d->kind = FTAR_ALLGATHER, d->count = uint64_t{1} << 60; },
                "desc.count"},
        BadCase{"runs_over_the_end",
                [](auto* d) {
                  d->count = uint64_t{1} << 60, d->recv = reinterpret_cast<void*>(UINTPTR_MAX - 64);
                },
                "desc.recv"},
        BadCase{"weight_negative", [](auto* d) { d->weight = -1; }, "desc.weight"},
        BadCase{"weight_infinite", [](auto* d) { d->weight = kInf; }, "desc.weight"},
        BadCase{"scale_zero", [](auto* d) { d->scale = 0; }, "desc.scale"},
        BadCase{"scale_nan", [](auto* d) { d->scale = NAN; }, "desc.scale"},
        BadCase{"scale_infinite", [](auto* d) { d->scale = -kInf; }, "desc.scale"},
        BadCase{"scale_of_no_f32", [](auto* d) { d->scale = 1e39; }, "desc.scale"},
        BadCase{"scale_lost_in_f32", [](auto* d) { d->scale = -1e-50; }, "desc.scale"},
        BadCase{"timeout", [](auto* d) { d->timeout_ns = -2; }, "desc.timeout_ns"},
        BadCase{"scale_of_a_broadcast", [](auto* d) { d->kind = FTAR_BROADCAST, d->scale = 2; },
                "desc.scale", Code::kUnsupported},
        BadCase{"scale_of_an_allgather",
                [](auto* d) { d->kind = FTAR_ALLGATHER, d->count = 1, d->scale = 0.5; },
                "desc.scale", Code::kUnsupported},
        BadCase{"root_negative", [](auto* d) { d->kind = FTAR_BROADCAST, d->root = -1; },
                "desc.root"},
        BadCase{"root_above", [](auto* d) { d->kind = FTAR_BROADCAST, d->root = 4; }, "desc.root"},
        BadCase{"root_without_input",
                [](auto* d) { d->kind = FTAR_BROADCAST, d->root = 1, d->send = nullptr; },
                "desc.send"},
        BadCase{"plan", [](auto* d) { d->plan = "fastest"; }, "desc.plan"},
        BadCase{"plan_empty", [](auto* d) { d->plan = ""; }, "desc.plan"},
        BadCase{"barrier_with_count", [](auto* d) { d->kind = FTAR_BARRIER; }, "desc.count"},
        BadCase{"flags", [](auto* d) { d->flags = 1; }, "desc.flags", Code::kUnsupported},
        BadCase{"priority", [](auto* d) { d->priority = 1; }, "desc.priority", Code::kUnsupported},
        BadCase{"stream_kind", [](auto* d) { d->stream_kind = FTAR_STREAM_CUDA; },
                "desc.stream_kind", Code::kDevice},
        BadCase{"stream", [](auto* d) { d->stream = g_buffer; }, "desc.stream", Code::kArg},
        BadCase{"device", [](auto* d) { d->device = 0; }, "desc.device", Code::kDevice},
        BadCase{"accumulate", [](auto* d) { d->accumulate = FTAR_F64; }, "desc.accumulate",
                Code::kUnsupported},
        BadCase{"wire", [](auto* d) { d->wire = FTAR_F16; }, "desc.wire", Code::kUnsupported},
        BadCase{"device_outcome", [](auto* d) { d->device_outcome = g_buffer; },
                "desc.device_outcome", Code::kArg},
        BadCase{"send_mem", [](auto* d) { d->send_mem = reinterpret_cast<ftarMem_t>(g_buffer); },
                "mem", Code::kHandle}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(OpDesc, TheDefaultsAreLegal) {
  EXPECT_TRUE(Translate(Good()).ok());
  ftarOpDesc barrier = FTAR_OP_DESC_INIT;
  barrier.kind = FTAR_BARRIER;
  EXPECT_TRUE(Translate(barrier).ok());
}

TEST(OpDesc, TheFormatsAnyTypeGetsMayBeSpelledOut) {
  ftarOpDesc desc = Good();
  desc.dtype = FTAR_F16;
  desc.accumulate = FTAR_F32;
  desc.wire = FTAR_F16;
  EXPECT_TRUE(Translate(desc).ok());
  desc.accumulate = FTAR_F16;
  EXPECT_EQ(Translate(desc).argument(), "desc.accumulate");
}

TEST(OpDesc, NoElementsNeedNoBuffers) {
  for (int32_t kind = FTAR_ALLREDUCE; kind <= FTAR_BARRIER; ++kind) {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.kind = kind;
    EXPECT_TRUE(Translate(desc).ok()) << kind;
  }
}

TEST(OpDesc, NeighboursDoNotOverlap) {
  ftarOpDesc desc = Good();
  desc.recv = g_buffer + 16;
  EXPECT_TRUE(Translate(desc).ok());
  desc.kind = FTAR_REDUCE_SCATTER;  // Reads 4 segments, writes one.
  desc.recv = g_buffer + 64;
  EXPECT_TRUE(Translate(desc).ok());
}

TEST(OpDesc, OnlyTheRootNeedsAnInput) {
  ftarOpDesc desc = Good();
  desc.kind = FTAR_BROADCAST;
  desc.root = 2;
  desc.send = nullptr;
  EXPECT_TRUE(Translate(desc).ok());
}

TEST(OpDesc, TranslatesEveryField) {
  ftarOpDesc desc = Good();
  desc.kind = FTAR_REDUCE_SCATTER;
  desc.dtype = FTAR_BF16;
  desc.redop = FTAR_AVG;
  desc.recv = g_buffer + 128;
  desc.weight = 0.5;
  desc.scale = 2;
  desc.timeout_ns = 9;
  desc.tag = 11;
  desc.plan = "ring";
  desc.epoch = 70;
  runtime::OpRequest request;
  ASSERT_TRUE(TranslateOp(desc, "desc", {4, 1}, &request).ok());
  EXPECT_EQ(request.spec.kind, plan::Kind::kReduceScatter);
  EXPECT_EQ(request.spec.dtype, FTAR_BF16);
  EXPECT_EQ(request.spec.redop, FTAR_AVG);
  EXPECT_EQ(request.spec.element_bytes, 2u);
  EXPECT_EQ(request.spec.accumulator_bytes, 4u);
  EXPECT_EQ(request.spec.count, 16u);
  EXPECT_FALSE(request.spec.in_place);
  EXPECT_EQ(request.spec.plan, plan::PlanKind::kRing);
  EXPECT_EQ(request.spec.scale, 2);
  EXPECT_EQ(request.spec.tag, 11u);
  EXPECT_EQ(request.layout_epoch, 70u);
  EXPECT_EQ(request.weight, 0.5);
  EXPECT_EQ(request.timeout_ns, 9);
  EXPECT_EQ(request.send, g_buffer);
  EXPECT_EQ(request.recv, g_buffer + 128);
}

TEST(OpDesc, FieldsThatAKindDoesNotReadDoNotDifferBetweenMembers) {
  ftarOpDesc a = FTAR_OP_DESC_INIT, b = FTAR_OP_DESC_INIT;
  a.kind = b.kind = FTAR_BARRIER;
  b.dtype = FTAR_F64;
  b.redop = FTAR_MAX;
  b.root = 3;
  b.scale = 5;
  b.send = g_buffer;
  runtime::OpRequest first, second;
  ASSERT_TRUE(TranslateOp(a, "desc", {4, 1}, &first).ok());
  ASSERT_TRUE(TranslateOp(b, "desc", {4, 1}, &second).ok());
  EXPECT_EQ(first.spec.dtype, second.spec.dtype);
  EXPECT_EQ(first.spec.redop, second.spec.redop);
  EXPECT_EQ(first.spec.scale, second.spec.scale);
  EXPECT_EQ(first.root_rank, second.root_rank);
  EXPECT_EQ(first.send, second.send);
}

TEST(OpDesc, UnmappedBuffersAreRefusedAtTheCall) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory =
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = memory;
  desc.recv = g_buffer;
  desc.dtype = FTAR_U8;
  desc.count = 256;
  EXPECT_TRUE(Translate(desc).ok());
  ASSERT_EQ(munmap(memory, page), 0);
  NoteUnmapped();
  EXPECT_EQ(Translate(desc).argument(), "desc.send");
  desc.send = g_buffer;
  desc.recv = memory;
  EXPECT_EQ(Translate(desc).argument(), "desc.recv");
  // The last byte counts: the second page is there, the third goes.
  desc.recv = static_cast<char*>(memory) + page + 1;
  desc.count = 2 * page - 1;
  desc.send = desc.recv;
  EXPECT_TRUE(Translate(desc).ok());
  ASSERT_EQ(munmap(static_cast<char*>(memory) + 2 * page, page), 0);
  NoteUnmapped();
  EXPECT_EQ(Translate(desc).argument(), "desc.recv");
  ASSERT_EQ(munmap(static_cast<char*>(memory) + page, page), 0);
}

// A GPU's memory looks like this from the host.
TEST(OpDesc, OnlyWhatTheHostCannotReadIsLookedForOnAGpu) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_FALSE(IsReadable(memory));
  EXPECT_FALSE(IsReadable(reinterpret_cast<void*>(1)));
  int asked = 0;
  Expected<device::Gpu*> answer = Status(Code::kMemory, "no context");
  OpContext context{4, 1};
  context.gpu_at = [&](const void* address) {
    EXPECT_EQ(address, memory);
    ++asked;
    return answer;
  };
  EXPECT_TRUE(Translate(Good(), context).ok());
  EXPECT_EQ(asked, 0);
  ftarOpDesc desc = Good();
  desc.recv = memory;
  const Status refused = Translate(desc, context);
  EXPECT_EQ(refused.code(), Code::kMemory);
  EXPECT_EQ(refused.argument(), "desc.recv");
  EXPECT_NE(refused.text().find("no context"), std::string::npos);
  answer = static_cast<device::Gpu*>(nullptr);
  EXPECT_EQ(Translate(desc, context).code(), Code::kArg);
  EXPECT_EQ(asked, 2);
  desc.count = 0;
  EXPECT_TRUE(Translate(desc, context).ok());
  desc = Good();
  desc.kind = FTAR_BROADCAST;  // another's input
  desc.send = memory;
  EXPECT_TRUE(Translate(desc, context).ok());
  EXPECT_EQ(asked, 2);
  ASSERT_EQ(munmap(memory, page), 0);
}

// A small buffer that was there a moment ago is not looked for at every call, but soon again.
TEST(OpDesc, WhatIsUnmappedBetweenTwoCallsIsNoticedSoon) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto map = [page] {
    return mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  void* memory = map();
  ASSERT_NE(memory, MAP_FAILED);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = memory;
  desc.dtype = FTAR_U8;
  desc.count = 8;
  ASSERT_TRUE(Translate(desc).ok());
  ASSERT_EQ(munmap(memory, page), 0);
  int taken = 0;
  while (taken <= kRememberedCalls && Translate(desc).ok()) ++taken;
  EXPECT_GT(taken, 0);
  EXPECT_LE(taken, kRememberedCalls);
}

// More buffers than there are places to remember, but side by side: each is asked about once. What
// is remembered is told by what is still taken when it is gone.
TEST(OpDesc, BuffersOfOneBlockAreRememberedTogether) {
  constexpr size_t kBuffers = 16, kApart = 1 << 18;
  void* const memory = mmap(nullptr, kBuffers * kApart, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.dtype = FTAR_U8;
  desc.count = 8;
  const auto taken = [&] {
    size_t out = 0;
    for (size_t i = 0; i < kBuffers; ++i) {
      desc.send = desc.recv = static_cast<char*>(memory) + i * kApart;
      out += Translate(desc).ok() ? 1 : 0;
    }
    return out;
  };
  NoteUnmapped();  // nothing is remembered
  ASSERT_EQ(taken(), kBuffers);
  ASSERT_EQ(munmap(memory, kBuffers * kApart), 0);
  EXPECT_EQ(taken(), kBuffers);
  NoteUnmapped();
  EXPECT_EQ(taken(), 0u);
}

TEST(OpDesc, RegisteredMemoryMustHoldTheBuffer) {
  auto object = std::make_shared<MemObject>();
  object->data = g_buffer;
  object->bytes = 64;
  const ftarMem_t mem = *AddHandle<ftarMem_t>(object);
  ftarOpDesc desc = Good();
  desc.send_mem = mem;
  EXPECT_TRUE(Translate(desc).ok());
  desc.count = 17;
  EXPECT_EQ(Translate(desc).argument(), "desc.send_mem");
  EXPECT_FALSE(RemoveHandle(mem) == nullptr);
  EXPECT_EQ(Translate(desc).code(), Code::kHandle);
}

}  // namespace
}  // namespace ftar::api
