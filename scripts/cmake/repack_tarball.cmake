# Run by CPack when packages are made: tarballs anew, with names in order, root as owner and one time for all.
set(time $ENV{SOURCE_DATE_EPOCH})
if(time STREQUAL "")
  set(time 0)
endif()
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(package MATCHES "\\.tar\\.gz$")
    set(scratch ${package}.unpacked)
    file(REMOVE_RECURSE ${scratch})
    file(ARCHIVE_EXTRACT INPUT ${package} DESTINATION ${scratch})
    file(GLOB names RELATIVE ${scratch} ${scratch}/*)
    execute_process(
      COMMAND tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@${time} --format=gnu -C ${scratch} -cf -
              ${names}
      COMMAND gzip -6n
      OUTPUT_FILE ${package} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${scratch})
  endif()
endforeach()
