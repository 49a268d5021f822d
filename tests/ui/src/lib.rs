//! Empty. The test `ui` compiles the programs in `fail` and `pass`. They are in a package of their own, so that the
//! features of other tests do not change the compiler's messages.
