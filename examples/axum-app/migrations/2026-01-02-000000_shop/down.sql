-- Takes the shop's tables away. Locks: exclusive on each of them.

drop table reports;
drop table ledger;
drop table orders;
drop table customers;
