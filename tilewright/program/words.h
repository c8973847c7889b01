// The reserved words of the language and what they stand for.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// How many arguments an element function takes; `most` < 0: any number.
struct FunctionWord {
  const char* name;
  int least, most;
};

const std::vector<FunctionWord>& function_words();
const FunctionWord* find_function(const std::string& word);
std::optional<Reducer> find_reducer(const std::string& word);

bool is_statement_keyword(const std::string& word);  ///< program axis param let input output
/// What a reserved word is ("a keyword", "a dtype", "a reducer", "a function", "a reducer and a function");
/// "" for other words.
std::string reserved_as(const std::string& word);

std::vector<std::string> dtype_names();
std::vector<std::string> reducer_names();
std::vector<std::string> callable_names();  ///< functions, dtypes and reducers

}  // namespace tilewright
