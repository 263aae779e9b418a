// The trainer's mathematics, alone: gradients against finite differences, equal bits from equal
// steps, batches by place.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "examples/trainer/model.h"
#include "examples/trainer/text.h"

namespace trainer {
namespace {

constexpr size_t kRows = 16;

void Ignore(size_t, size_t) {}

class TrainerTest : public testing::Test {
 protected:
  float GradientOf(Model* model, int64_t step, int32_t replica, std::vector<float>* gradient) {
    text_.Batch(step, replica, kWindow, &inputs_, &targets_);
    gradient->resize(kParameters);
    return model->Gradient(inputs_, targets_, gradient->data(), Ignore);
  }

  const Text text_{"/usr/share/common-licenses"};
  std::vector<int> inputs_, targets_ = std::vector<int>(kRows);
};

TEST_F(TrainerTest, TheTextIsThere) { EXPECT_GT(text_.size(), 100'000u); }

TEST_F(TrainerTest, ABatchDependsOnStepAndReplicaOnly) {
  std::vector<int> inputs, other, targets(kRows), others(kRows);
  text_.Batch(5, 2, kWindow, &inputs, &targets);
  text_.Batch(5, 2, kWindow, &other, &others);
  EXPECT_EQ(inputs, other);
  EXPECT_EQ(targets, others);
  EXPECT_EQ(inputs.size(), kRows * kWindow);
  text_.Batch(5, 1, kWindow, &other, &others);
  EXPECT_NE(inputs, other);
  text_.Batch(6, 2, kWindow, &other, &others);
  EXPECT_NE(inputs, other);
}

TEST_F(TrainerTest, TheGradientIsTheSlopeOfTheLoss) {
  Model model;
  std::vector<float> gradient, unused;
  GradientOf(&model, 0, 0, &gradient);
  const std::vector<int> inputs = inputs_;
  // Some of each layer, and embeddings of characters that are in the batch.
  std::vector<size_t> places = {3, kOutputBias + 'e', kHiddenBias + 7, kHiddenBias - 1};
  for (size_t i = 0; i < 40; ++i) places.push_back(Mix(i) % kEmbeddingAt);
  for (size_t i = 0; i < 20; ++i) places.push_back(kEmbeddingAt + kEmbedding * inputs[i] + i);
  for (size_t at : places) {
    const float weight = model.state()[at], step = 1e-2f;
    model.state()[at] = weight + step;
    const double above = GradientOf(&model, 0, 0, &unused);
    model.state()[at] = weight - step;
    const double below = GradientOf(&model, 0, 0, &unused);
    model.state()[at] = weight;
    const double slope = (above - below) / (2 * step);
    EXPECT_NEAR(gradient[at], slope, 3e-4 + 0.05 * std::abs(slope)) << "parameter " << at;
  }
}

TEST_F(TrainerTest, EveryPartOfTheGradientIsAnnouncedOnceAndInOrder) {
  Model model;
  std::vector<float> gradient(kParameters);
  text_.Batch(0, 0, kWindow, &inputs_, &targets_);
  std::vector<float> early;
  size_t end = 0, parts = 0;
  model.Gradient(inputs_, targets_, gradient.data(), [&](size_t first, size_t last) {
    EXPECT_EQ(first, end);
    EXPECT_LT(first, last);
    early.insert(early.end(), gradient.begin() + first, gradient.begin() + last);
    end = last;
    ++parts;
  });
  EXPECT_EQ(end, kParameters);
  EXPECT_GT(parts, 2u);
  EXPECT_EQ(early, gradient) << "a part changed after it was announced";
}

TEST_F(TrainerTest, ReplicasThatAverageStayEqualAndLearn) {
  Model one, two;
  std::vector<float> gradient, other;
  double first = 0, last = 0;
  constexpr int kSteps = 60, kTail = 10;
  for (int step = 0; step < kSteps; ++step) {
    const double loss =
        GradientOf(&one, step, 0, &gradient) / 2 + GradientOf(&two, step, 1, &other) / 2;
    for (size_t i = 0; i < kParameters; ++i) gradient[i] = (gradient[i] + other[i]) / 2;
    one.Update(gradient.data(), 0.001f);
    two.Update(gradient.data(), 0.001f);
    ASSERT_EQ(one.Hash(), two.Hash()) << "after step " << step;
    if (step < kTail) first += loss / kTail;
    if (step >= kSteps - kTail) last += loss / kTail;
  }
  EXPECT_EQ(one.updates(), kSteps);
  EXPECT_LT(last, 0.85 * first);
}

TEST_F(TrainerTest, TheHashSeesOneBit) {
  Model one, two;
  EXPECT_EQ(one.Hash(), two.Hash());
  float& weight = two.state()[12'345];
  weight = std::nextafter(weight, 1e9f);
  EXPECT_NE(one.Hash(), two.Hash());
}

}  // namespace
}  // namespace trainer
