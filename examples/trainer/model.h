// A character language model: the last 16 characters, each as a vector of 24 numbers, through one
// hidden layer of 512 to the next character's probabilities; float32, cross-entropy, its own
// backpropagation, Adam. One thread at a time.
//
// Weights and gradients lie in the order in which backpropagation finishes them (output layer,
// hidden layer, embedding), so that the first gradients can travel while the rest is still being
// computed.
#ifndef FTAR_EXAMPLES_TRAINER_MODEL_H_
#define FTAR_EXAMPLES_TRAINER_MODEL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "text.h"

namespace trainer {

constexpr size_t kWindow = 16, kEmbedding = 24, kInput = kWindow * kEmbedding, kHidden = 512;
constexpr size_t kOutputBias = kHidden * kVocabulary, kHiddenAt = kOutputBias + kVocabulary;
constexpr size_t kHiddenBias = kHiddenAt + kInput * kHidden, kEmbeddingAt = kHiddenBias + kHidden;
constexpr size_t kParameters = kEmbeddingAt + kVocabulary * kEmbedding;

// y += a * x, the inner loop of every matrix product here.
inline void AddScaled(float a, const float* __restrict x, size_t n, float* __restrict y) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// Eight sums side by side, so that the compiler may use vector registers; n is a multiple of 8.
inline float Dot(const float* x, const float* y, size_t n) {
  float sums[8] = {};
  for (size_t i = 0; i < n; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

class Model {
 public:
  // Every replica starts with the same weights, so those that start together need no exchange.
  Model() : state_(3 * kParameters + 1) {
    FillRandom(0, kOutputBias, 1 / std::sqrt(float{kHidden}));
    FillRandom(kHiddenAt, kHiddenBias, 1 / std::sqrt(float{kInput}));
    FillRandom(kEmbeddingAt, kParameters, 1);
  }

  // All that a newcomer needs: weights, both of Adam's moments, and the number of updates so far.
  std::vector<float>& state() { return state_; }
  int64_t updates() const { return static_cast<int64_t>(state_.back()); }

  // Returns the mean loss over the batch and sets its gradient; calls `ready(first, last)` for each
  // part that is final.
  float Gradient(const std::vector<int>& inputs, const std::vector<int>& targets, float* gradient,
                 const std::function<void(size_t, size_t)>& ready) {
    const size_t rows = targets.size(), middle = kHiddenAt + kInput / 2 * kHidden;
    Forward(inputs, rows);
    std::memset(gradient, 0, kParameters * sizeof(float));
    const float loss = OutputLayer(targets, gradient);
    ready(0, kHiddenAt);
    HiddenLayer(rows, gradient, 0, kInput / 2);
    ready(kHiddenAt, middle);
    HiddenLayer(rows, gradient, kInput / 2, kInput);
    for (size_t row = 0; row < rows; ++row)
      AddScaled(1, &hidden_error_[row * kHidden], kHidden, gradient + kHiddenBias);
    ready(middle, kEmbeddingAt);
    for (size_t i = 0; i < inputs.size(); ++i) {
      AddScaled(1, &input_error_[i * kEmbedding], kEmbedding,
                gradient + kEmbeddingAt + kEmbedding * inputs[i]);
    }
    ready(kEmbeddingAt, kParameters);
    return loss;
  }

  // One step of Adam. Equal state and equal gradient give equal bits.
  void Update(const float* gradient, float rate) {
    float *w = state_.data(), *m = w + kParameters, *v = m + kParameters;
    const double step = (state_.back() += 1);
    const float fast = static_cast<float>(1 / (1 - std::pow(0.9, step)));
    const float slow = static_cast<float>(1 / (1 - std::pow(0.999, step)));
    for (size_t i = 0; i < kParameters; ++i) {
      m[i] = 0.9f * m[i] + 0.1f * gradient[i];
      v[i] = 0.999f * v[i] + 0.001f * gradient[i] * gradient[i];
      w[i] -= rate * (m[i] * fast) / (std::sqrt(v[i] * slow) + 1e-8f);
    }
  }

  // A fingerprint of every bit of the state.
  uint64_t Hash() const {
    uint64_t hash = 0;
    for (float value : state_) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  // A character that may follow a window, drawn by its probability (the Gumbel trick), sharpened.
  int Predict(const std::vector<int>& window, uint64_t seed) {
    Forward(window, 1);
    for (float& y : logits_)
      y -= 0.5f * std::log(-std::log((Mix(++seed) >> 40) * 0x1p-24f + 1e-9f));
    return static_cast<int>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  }

 private:
  void FillRandom(size_t first, size_t last, float scale) {
    for (size_t i = first; i < last; ++i)
      state_[i] = scale * (static_cast<float>(Mix(i) >> 40) * 0x1p-23f - 1);
  }

  void Forward(const std::vector<int>& inputs, size_t rows) {
    input_.resize(rows * kInput);
    hidden_.resize(rows * kHidden);
    logits_.resize(rows * kVocabulary);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::copy_n(&state_[kEmbeddingAt + kEmbedding * inputs[i]], kEmbedding,
                  &input_[i * kEmbedding]);
    }
    for (size_t row = 0; row < rows; ++row) {
      float *x = &input_[row * kInput], *h = &hidden_[row * kHidden],
            *y = &logits_[row * kVocabulary];
      std::copy_n(&state_[kHiddenBias], kHidden, h);
      for (size_t i = 0; i < kInput; ++i)
        AddScaled(x[i], &state_[kHiddenAt + kHidden * i], kHidden, h);
      for (size_t j = 0; j < kHidden; ++j) h[j] = std::tanh(h[j]);
      std::copy_n(&state_[kOutputBias], kVocabulary, y);
      for (size_t j = 0; j < kHidden; ++j)
        AddScaled(h[j], &state_[kVocabulary * j], kVocabulary, y);
    }
  }

  // Turns the logits into their errors; the output layer's gradient and the hidden layer's errors
  // follow from those.
  float OutputLayer(const std::vector<int>& targets, float* gradient) {
    double loss = 0;
    hidden_error_.resize(hidden_.size());
    for (size_t row = 0; row < targets.size(); ++row) {
      float *y = &logits_[row * kVocabulary], *h = &hidden_[row * kHidden],
            *error = &hidden_error_[row * kHidden];
      const float top = *std::max_element(y, y + kVocabulary), target = y[targets[row]];
      float sum = 0;
      for (int c = 0; c < kVocabulary; ++c) sum += (y[c] = std::exp(y[c] - top));
      loss += std::log(sum) + top - target;
      for (int c = 0; c < kVocabulary; ++c)
        y[c] = (y[c] / sum - (c == targets[row])) / static_cast<float>(targets.size());
      AddScaled(1, y, kVocabulary, gradient + kOutputBias);
      for (size_t j = 0; j < kHidden; ++j) {
        AddScaled(h[j], y, kVocabulary, gradient + kVocabulary * j);
        error[j] = Dot(&state_[kVocabulary * j], y, kVocabulary) * (1 - h[j] * h[j]);
      }
    }
    return static_cast<float>(loss / static_cast<double>(targets.size()));
  }

  // The hidden layer's gradient and the embedding's errors, for inputs [first, last) of each row.
  void HiddenLayer(size_t rows, float* gradient, size_t first, size_t last) {
    input_error_.resize(input_.size());
    for (size_t i = first; i < last; ++i) {
      const size_t at = kHiddenAt + kHidden * i;
      for (size_t row = 0; row < rows; ++row) {
        AddScaled(input_[row * kInput + i], &hidden_error_[row * kHidden], kHidden, gradient + at);
        input_error_[row * kInput + i] = Dot(&state_[at], &hidden_error_[row * kHidden], kHidden);
      }
    }
  }

  std::vector<float> state_, input_, hidden_, logits_, hidden_error_, input_error_;
};

}  // namespace trainer

#endif  // FTAR_EXAMPLES_TRAINER_MODEL_H_
