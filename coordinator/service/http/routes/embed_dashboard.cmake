# cmake -DOUT=… -DDIST=web/dist -P embed_dashboard.cmake: one C++ source that holds every file of the
# dashboard, as it is and compressed. The bytes come in through .incbin, which costs the compiler nothing.
# Names that begin with a dot are notes of the build and are not served.
cmake_path(GET OUT PARENT_PATH folder)
set(work ${folder}/dashboard)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})
file(GLOB_RECURSE files RELATIVE ${DIST} ${DIST}/*)
list(SORT files)

set(blobs "")
set(symbols "")
set(rows "")
set(number 0)

function(add_blob symbol path)
  set(blobs "${blobs}asm(R\"(
  .section .rodata
  .global ${symbol}
  .global ${symbol}_end
  .hidden ${symbol}
  .hidden ${symbol}_end
${symbol}:
  .incbin \"${path}\"
${symbol}_end:
  .byte 0
  .previous
)\");
" PARENT_SCOPE)
  set(symbols "${symbols}extern const char ${symbol}[], ${symbol}_end[];\n" PARENT_SCOPE)
endfunction()

foreach(file IN LISTS files)
  if(file MATCHES "(^|/)[.]")
    continue()
  endif()
  execute_process(COMMAND gzip --best --no-name --stdout ${DIST}/${file}
                  OUTPUT_FILE ${work}/${number}.gz RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "gzip could not compress ${DIST}/${file}")
  endif()
  file(COPY_FILE ${DIST}/${file} ${work}/${number})
  file(SHA256 ${DIST}/${file} digest)
  string(SUBSTRING ${digest} 0 32 digest)
  add_blob(shoal_dashboard_${number} ${work}/${number})
  add_blob(shoal_dashboard_${number}_gz ${work}/${number}.gz)
  string(APPEND rows "      {\"${file}\", \"${digest}\", text(shoal_dashboard_${number}, shoal_dashboard_${number}_end),
       text(shoal_dashboard_${number}_gz, shoal_dashboard_${number}_gz_end)},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUT} "#include \"coordinator/service/http/routes/dashboard.h\"

${blobs}
extern \"C\" {
${symbols}}

namespace shoal::coordinator::rest {
namespace {

[[maybe_unused]] std::string_view text(const char* from, const char* to) {
  return {from, static_cast<std::size_t>(to - from)};
}

}  // namespace

const std::vector<DashboardFile>& dashboard_files() {
  static const std::vector<DashboardFile> kFiles = {
${rows}  };
  return kFiles;
}

}  // namespace shoal::coordinator::rest
")
