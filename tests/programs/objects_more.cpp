// The library of objects.cpp.
#define KEEP extern "C" __attribute__((noipa, used))

using Back = long (*)(long, long);

KEEP long m_inner(long what, long again) {
  for (int i = 0; i < 5000; ++i) asm volatile("" : "+r"(what));
  if (again > 0) what = m_inner(what, again - 1) + 1;
  asm volatile("" : "+r"(what));
  return what;
}

KEEP long m_work(long what, Back back) {
  const long done = m_inner(what, 1) + m_inner(what, 1);
  return done + back(what, 5);
}
