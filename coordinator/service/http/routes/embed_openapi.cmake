# cmake -DOUT=… -DDOCUMENT=… -P embed_openapi.cmake: turns the contract into one C++ source, so that the
# server needs no file beside it. Cut into pieces because compilers bound the length of one literal.
file(READ ${DOCUMENT} text)
string(LENGTH "${text}" length)
set(pieces "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 12000 piece)
  string(APPEND pieces "    R\"OPENAPI(${piece})OPENAPI\"\n")
  math(EXPR at "${at} + 12000")
endwhile()
file(WRITE ${OUT} "#include \"coordinator/service/http/routes/openapi.h\"

namespace shoal::coordinator::rest {

std::string_view openapi_document() {
  static constexpr std::string_view kDocument =
${pieces}      ;
  return kDocument;
}

}  // namespace shoal::coordinator::rest
")
