# What a release build does against mistakes that slipped through: docs/security.md tells what each is for. Not with
# sanitizers, which find the same and more. Costs nothing that `tandem bench` could show.
set(hardened $<CONFIG:Release,RelWithDebInfo,MinSizeRel>) # _FORTIFY_SOURCE wants an optimising compiler
target_compile_options(td_flags INTERFACE
  -fstack-protector-strong -fstack-clash-protection -Wformat -Wformat-security
  $<${hardened}:-U_FORTIFY_SOURCE> $<${hardened}:-D_FORTIFY_SOURCE=3>
  # The same bytes wherever the tree lies. __FILE__ is mapped in src alone: tests find their data by it.
  -fdebug-prefix-map=${PROJECT_SOURCE_DIR}/= -fdebug-prefix-map=${PROJECT_BINARY_DIR}/=build/)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
  target_compile_options(td_flags INTERFACE -fcf-protection)
endif()
target_link_options(td_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
