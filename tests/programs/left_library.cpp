// left.cpp in a library, main() too: nothing is here.
