drop trigger looks_followed on windlass.looks;
drop function windlass.looks_followed();
drop sequence windlass.line_seq;
