#include "tilewright/program/words.h"

#include <algorithm>

namespace tilewright {

namespace {

const std::vector<Reducer>& reducers() {
  static const std::vector<Reducer> all = {Reducer::Sum,  Reducer::Max, Reducer::Min,     Reducer::Prod,
                                           Reducer::Any,  Reducer::All, Reducer::Argmax,  Reducer::Argmin,
                                           Reducer::Mean, Reducer::Var, Reducer::Softmax, Reducer::Logsumexp};
  return all;
}

const std::vector<std::string> statement_keywords = {"program", "axis", "param", "let", "input", "output"};
const std::vector<std::string> other_keywords = {"range", "size", "inf", "true", "false",
                                                 "and",   "or",   "not", "topk", "argtopk"};

bool among(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

const std::vector<FunctionWord>& function_words() {
  static const std::vector<FunctionWord> words = {
      {"exp", 1, 1},   {"log", 1, 1},   {"exp2", 1, 1},    {"log2", 1, 1}, {"sqrt", 1, 1},
      {"rsqrt", 1, 1}, {"tanh", 1, 1},  {"sigmoid", 1, 1}, {"erf", 1, 1},  {"abs", 1, 1},
      {"floor", 1, 1}, {"round", 1, 1}, {"sign", 1, 1},    {"pow", 2, 2},  {"max", 2, -1},
      {"min", 2, -1},  {"where", 3, 3}, {"relu", 1, 1},    {"silu", 1, 1}, {"gelu", 1, 1}};
  return words;
}

const FunctionWord* find_function(const std::string& word) {
  for (const FunctionWord& f : function_words())
    if (word == f.name) return &f;
  return nullptr;
}

std::optional<Reducer> find_reducer(const std::string& word) {
  for (Reducer r : reducers())
    if (word == name(r)) return r;
  return std::nullopt;
}

bool is_statement_keyword(const std::string& word) { return among(statement_keywords, word); }

std::string reserved_as(const std::string& word) {
  if (is_statement_keyword(word) || among(other_keywords, word)) return "a keyword";
  if (parse_dtype(word)) return "a dtype";
  const bool reducer = find_reducer(word).has_value(), function = find_function(word) != nullptr;
  if (reducer && function) return "a reducer and a function";
  if (reducer) return "a reducer";
  return function ? "a function" : "";
}

std::vector<std::string> dtype_names() {
  return {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i8", "bool"};
}

std::vector<std::string> reducer_names() {
  std::vector<std::string> all;
  for (Reducer r : reducers()) all.push_back(name(r));
  all.insert(all.end(), {"topk", "argtopk"});
  return all;
}

std::vector<std::string> callable_names() {
  std::vector<std::string> all = dtype_names();
  for (const FunctionWord& f : function_words()) all.push_back(f.name);
  for (Reducer r : reducers()) all.push_back(name(r));
  all.push_back("size");
  return all;
}

}  // namespace tilewright
