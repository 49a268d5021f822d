//! Empty. The test `ui` checks the programs in `fail`. They are in a package of their own, so that the
//! features of other tests do not change the compiler's messages.
