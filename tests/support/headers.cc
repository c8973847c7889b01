// Carries the headers that the tests precompile (tests/CMakeLists.txt).
int main() {}
