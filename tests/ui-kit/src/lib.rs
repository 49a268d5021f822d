//! Empty: the programs in `fail` and `pass` are compiled by the test `ui`, in a package of their own so that the features
//! of other tests do not change what the compiler says.
