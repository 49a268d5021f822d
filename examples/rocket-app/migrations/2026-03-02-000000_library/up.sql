-- The books, who has lent them, and the letters to the readers.
-- Locks: creates objects only.

create table books (
    id bigint primary key generated always as identity,
    title text not null unique
);

create table loans (
    id bigint primary key generated always as identity,
    book_id bigint not null references books,
    reader text not null,
    due_at timestamptz not null,
    returned_at timestamptz
);

-- A book has one reader at a time.
create unique index loans_book_id on loans (book_id) where returned_at is null;

-- No unique key on purpose: one reminder per loan is what the transactional job `remind` promises, and the end-to-end
-- test counts them.
create table letters (
    id bigint primary key generated always as identity,
    loan_id bigint not null references loans,
    kind text not null,
    written_at timestamptz not null default now()
);

create index letters_loan_id on letters (loan_id);

-- With these the example works without further commands.
insert into books (title) values ('Emma'), ('Middlemarch'), ('Nana');
