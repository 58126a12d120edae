# `cpack` in the build folder makes a Debian package and a tarball of what `cmake --install` installs;
# scripts/package.sh does it in one command. The same source gives the same bytes: SOURCE_DATE_EPOCH (the script takes
# the time of the last commit) stands in for every time, owners are root, names are in order.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.ini")

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # installing needs no tests

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "The Tandem authors")
set(CPACK_PACKAGE_CONTACT "The Tandem authors <noreply@tandem.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 1) # what several threads compress depends on their number

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION sound)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libexttextcat-data) # read, not linked
# Opened at run time: the program starts without them and says what to install.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "ocl-icd-libopencl1, pocl-opencl-icd | opencl-icd, libvulkan1, mesa-vulkan-drivers | vulkan-icd")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libclblast1, libespeak-ng1")

# The module for several computers is a package of its own, so that no other needs MPI.
if(MPI_FOUND)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL Unspecified mpi)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME tandem)
  set(CPACK_DEBIAN_UNSPECIFIED_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME tandem-mpi)
  set(CPACK_DEBIAN_MPI_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "tandem (= ${PROJECT_VERSION}), openmpi-bin")
  set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "")
  set(CPACK_DEBIAN_MPI_PACKAGE_SUGGESTS "")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "Module of tandem that joins computers by Open MPI")
endif()

# CPack's own tarball keeps the builder's name and the disk's order.
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/cmake/repack_tarball.cmake)
include(CPack)
