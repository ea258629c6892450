# Run at build time: writes OUT with a hash of the lowering code (LIST: files, one a line). Entries of the compile cache say which
# code wrote them. The file is touched only when the hash changes.
file(STRINGS ${LIST} files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 short)
file(CONFIGURE OUTPUT ${OUT} CONTENT "/* Made at build time from the lowering code. */\n#define TPT_FINGERPRINT \"${short}\"\n" @ONLY)
