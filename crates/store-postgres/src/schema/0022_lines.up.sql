-- A number is drawn by whoever follows looks at lanes: while it stands still, nobody got in line.
create sequence windlass.line_seq;
