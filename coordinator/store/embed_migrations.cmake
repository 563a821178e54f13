# cmake -DOUT=… -DFOLDER=… -P embed_migrations.cmake: turns FOLDER/NNNN_name.sql into one C++ source, so
# that a binary carries its schema with it. A raw string literal keeps the SQL readable in the result.
file(GLOB files ${FOLDER}/*.sql)
list(SORT files)
set(entries "")
foreach(path IN LISTS files)
  get_filename_component(name ${path} NAME_WE)
  if(NOT name MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)$")
    message(FATAL_ERROR "${path}: a migration is named NNNN_name.sql")
  endif()
  math(EXPR version "1${CMAKE_MATCH_1} - 10000")
  set(label ${CMAKE_MATCH_2})
  file(READ ${path} sql)
  string(APPEND entries "    {${version}, \"${label}\", R\"SQL(${sql})SQL\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"coordinator/store/migrator.h\"

namespace shoal::coordinator {

std::span<const Migration> embedded_migrations() {
  static const Migration kMigrations[] = {
${entries}  };
  return kMigrations;
}

}  // namespace shoal::coordinator
")
