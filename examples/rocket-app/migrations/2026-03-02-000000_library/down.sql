-- Takes the library's tables away. Locks: exclusive on each of them.

drop table letters;
drop table loans;
drop table books;
