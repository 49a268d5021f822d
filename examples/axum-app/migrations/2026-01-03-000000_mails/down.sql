-- Takes the mails away. Locks: exclusive on their table.

drop table mails;
