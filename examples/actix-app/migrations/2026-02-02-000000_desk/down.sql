-- Takes the desk's tables away. Locks: exclusive on each of them.

drop table tickets;
drop table agents;
