# cmake -DOUT=… -DFOLDER=examples -P embed_examples.cmake: one C++ source that holds every job of the folder
# as text, for GET /api/v1/examples. The summary is the first sentence of the comment that opens the file.
file(GLOB files ${FOLDER}/*.toml)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  file(READ ${file} text)
  string(REGEX MATCH "^# ([^\n]*)\n(# ([^\n]*)\n)?" opening "${text}")
  set(summary "${CMAKE_MATCH_1} ${CMAKE_MATCH_3}")
  string(REGEX REPLACE "[.:] .*$" "" summary "${summary}")
  string(STRIP "${summary}" summary)
  string(APPEND rows "      {R\"TEXT(${name})TEXT\", R\"TEXT(${summary})TEXT\", R\"TEXT(${text})TEXT\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"coordinator/service/http/routes/examples.h\"

namespace shoal::coordinator::rest {

const std::vector<ExampleJob>& example_jobs() {
  static const std::vector<ExampleJob> kExamples = {
${rows}  };
  return kExamples;
}

}  // namespace shoal::coordinator::rest
")
