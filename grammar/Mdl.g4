// MDL, the metric description language: docs/language.md says what it means.
//
// One grammar for classic MDL and our extensions; compiler/parse refuses the latter under
// --std=classic, with the position at hand. Kept free of ambiguity and decidable with one
// token of lookahead nearly everywhere, because that is what makes ANTLR fast. Three rules
// do that work: every item of a block begins with its own keyword; `(*` is one token, so
// that code never looks like a call; and words whose meaning depends on the place (sum,
// normalized, processTimer, host, ...) are plain names here, checked by who reads them.
//
// Keywords are reserved only where they must be: `name` takes all of them, `word` (a name
// at the beginning of an expression) all but the few that can begin something else there.
// The lexer never fails: what it does not know becomes a token of its own that
// compiler/parse reports. Its input symbols are bytes, not code points.
grammar Mdl;

// A path or a name with `::`. compiler/parse makes one of the tokens of a query that stand together: to the lexer
// they are many, because what it does must not depend on the place.
tokens { LONG_NAME }

file : (definition | SEMI)* EOF ;

definition
  : resourceList
  | constraintDef
  | metric
  | tool
  | tunables
  | exclude
  | statement
  ;

// --- Resource lists ---

resourceList : KW_LIST (longList | shortList) ;

longList : name KW_IS name LBRACE listField* RBRACE ;

listField
  : KW_ITEMS ASSIGN? LBRACE items? RBRACE SEMI
  | flavorField
  | KW_LIBRARY boolean SEMI
  ;

items : literal (COMMA literal)* ;

shortList
  : LPAREN name COMMA string COMMA LPAREN items? RPAREN COMMA boolean COMMA name (COMMA name)* RPAREN SEMI
  ;

flavorField : KW_FLAVOR ASSIGN? (LBRACE name (COMMA name)* RBRACE | name) SEMI ;

// --- Constraints and metrics ---

constraintDef : KW_CONSTRAINT name path KW_IS (KW_DEFAULT SEMI | cellType block) ;

path : (SLASH component)+ ;

component : name | STAR ;

cellType : name (LPAREN string RPAREN)? ;

metric : KW_METRIC name LBRACE metricField* RBRACE ;

metricField
  : KW_NAME string SEMI                                             # nameField
  | KW_UNITS (name | string) SEMI                                   # unitsField
  | (KW_UNITS_TYPE | KW_AGGREGATE | KW_STYLE | KW_MODE) name SEMI   # choiceField
  | flavorField                                                     # metricFlavor
  | KW_COUNTER name SEMI                                            # temporary
  | KW_FLAG name SEMI                                               # flagTemporary
  | KW_FOCUS string SEMI                                            # focusField
  | KW_CONSTRAINT name (SEMI | inlineConstraint)                    # metricConstraint
  | KW_BASE KW_IS cellType (KW_KEYED KW_BY expr (COMMA expr)*)? block # base
  | SEMI                                                            # emptyField
  ;

inlineConstraint : path KW_IS KW_REPLACE cellType block ;

// --- Everything else: what the tool around it is told ---

tool : (KW_DAEMON | KW_PROCESS | KW_VISI) name LBRACE toolField* RBRACE ;

toolField : name ASSIGN? (toolValue | LBRACE toolValue (COMMA toolValue)* RBRACE) SEMI ;

toolValue : literal | name ;

tunables
  : KW_TUNABLE (LBRACE tunable* RBRACE | tunable)
  ;

tunable : string literal SEMI ;

exclude : KW_EXCLUDE (KW_NO_CASE | KW_REGEX)* string SEMI ;

// --- Statements: where code goes ---

statement
  : block                                                                                     # nested
  | KW_FOREACH name KW_IN place statement                                                     # foreach
  | KW_IF LPAREN expr RPAREN statement                                                        # condition
  | (KW_APPEND | KW_PREPEND) (KW_PRE | KW_POST)? place KW_CONSTRAINED? CODE_OPEN code* CODE_CLOSE # insert
  ;

block : LBRACE (statement | SEMI)* RBRACE ;

// A list or a point.
place : word selector* ;

selector : DOT name | LBRACKET expr RBRACKET ;

// --- Code: what runs in the process ---

code
  : KW_IF LPAREN expr RPAREN code (KW_ELSE code)?  # ifCode
  | LBRACE code* RBRACE                            # blockCode
  | expr SEMI                                      # exprCode
  | SEMI                                           # emptyCode
  ;

expr
  : expr DOT name                                            # fieldExpr
  | expr LBRACKET expr RBRACKET                              # indexExpr
  | expr LPAREN (expr (COMMA expr)*)? RPAREN                 # callExpr
  | expr op=(INC | DEC)                                      # stepExpr
  | op=(MINUS | NOT | TILDE | AMP | INC | DEC) expr          # prefixExpr
  | expr op=(STAR | SLASH | PERCENT) expr                    # binaryExpr
  | expr op=(PLUS | MINUS) expr                              # binaryExpr
  | expr op=(SHL | SHR) expr                                 # binaryExpr
  | expr op=(LT | LE | GT | GE) expr                         # binaryExpr
  | expr op=(EQ | NE) expr                                   # binaryExpr
  | expr op=AMP expr                                         # binaryExpr
  | expr op=CARET expr                                       # binaryExpr
  | expr op=PIPE expr                                        # binaryExpr
  | expr op=AND expr                                         # binaryExpr
  | expr op=OR expr                                          # binaryExpr
  | <assoc=right> expr op=(ASSIGN | ADD_ASSIGN | SUB_ASSIGN | MUL_ASSIGN) expr # assignExpr
  | LPAREN expr RPAREN                                       # parenExpr
  | number                                                   # numberExpr
  | string                                                   # stringExpr
  | boolean                                                  # booleanExpr
  | word                                                     # nameExpr
  ;

// --- Queries: a metric in one line (docs/queries.md) ---

query : word about? queryClause* EOF ;

about : subjects | expr (KW_AT subjects)? ;

subjects : subject (COMMA subject)* ;

// The name behind the point is `entry` or `return`.
subject : (word | string | LONG_NAME) STAR? (DOT word)? ;

queryClause
  : KW_IF expr                # ifClause
  | KW_WITHIN subjects        # withinClause
  | KW_BY expr (COMMA expr)*  # byClause
  | KW_AS word                # asClause
  ;

// --- Leaves ---

literal : string | boolean | MINUS? number ;

string : STRING | OPEN_STRING ;

number : INT | HEX | FLOAT | BAD_NUMBER ;

boolean : KW_TRUE | KW_FALSE ;

name : ID | reservable | KW_PRE | KW_POST | KW_IF | KW_ELSE ;

word : ID | reservable ;

reservable
  : KW_LIST | KW_IS | KW_ITEMS | KW_FLAVOR | KW_LIBRARY | KW_FOREACH | KW_IN | KW_METRIC | KW_NAME | KW_UNITS
  | KW_UNITS_TYPE | KW_AGGREGATE | KW_STYLE | KW_MODE | KW_BASE | KW_APPEND | KW_PREPEND | KW_CONSTRAINT
  | KW_CONSTRAINED | KW_REPLACE | KW_DEFAULT | KW_COUNTER | KW_FLAG | KW_FOCUS | KW_DAEMON | KW_PROCESS | KW_VISI | KW_TUNABLE
  | KW_EXCLUDE | KW_NO_CASE | KW_REGEX | KW_AT | KW_WITHIN | KW_KEYED | KW_BY | KW_AS
  ;

// --- Tokens ---

KW_LIST : 'resourceList' | 'List' | 'list' ;
KW_IS : 'is' ;
KW_ITEMS : 'items' ;
KW_FLAVOR : 'flavor' ;
KW_LIBRARY : 'library' ;
KW_FOREACH : 'foreach' ;
KW_IN : 'in' ;
KW_IF : 'if' ;
KW_ELSE : 'else' ;
KW_METRIC : 'metric' ;
KW_NAME : 'name' ;
KW_UNITS : 'units' ;
KW_UNITS_TYPE : 'unitsType' ;
KW_AGGREGATE : 'aggregateOperator' ;
KW_STYLE : 'style' ;
KW_MODE : 'mode' ;
KW_BASE : 'base' ;
KW_APPEND : 'append' ;
KW_PREPEND : 'prepend' ;
KW_PRE : 'preInsn' | 'preinsn' ;
KW_POST : 'postInsn' | 'postinsn' ;
KW_CONSTRAINT : 'constraint' ;
KW_CONSTRAINED : 'constrained' ;
KW_REPLACE : 'replace' ;
KW_DEFAULT : 'default' ;
KW_COUNTER : 'counter' ;
KW_FLAG : 'flag' ;
KW_FOCUS : 'focus' ;
KW_AT : 'at' ;
KW_WITHIN : 'within' ;
KW_KEYED : 'keyed' ;
KW_BY : 'by' ;
KW_AS : 'as' ;
KW_DAEMON : 'daemon' ;
KW_PROCESS : 'process' ;
KW_VISI : 'visi' ;
KW_TUNABLE : 'tunable_constant' ;
KW_EXCLUDE : 'exclude' ;
KW_NO_CASE : 'noCase' ;
KW_REGEX : 'regex' ;
KW_TRUE : [tT] [rR] [uU] [eE] ;
KW_FALSE : [fF] [aA] [lL] [sS] [eE] ;

CODE_OPEN : '(*' ;
CODE_CLOSE : '*)' ;
LPAREN : '(' ;
RPAREN : ')' ;
LBRACE : '{' ;
RBRACE : '}' ;
LBRACKET : '[' ;
RBRACKET : ']' ;
SEMI : ';' ;
COMMA : ',' ;
DOT : '.' ;
ADD_ASSIGN : '+=' ;
SUB_ASSIGN : '-=' ;
MUL_ASSIGN : '*=' ;
INC : '++' ;
DEC : '--' ;
AND : '&&' ;
OR : '||' ;
EQ : '==' ;
NE : '!=' ;
SHL : '<<' ;
SHR : '>>' ;
LE : '<=' ;
GE : '>=' ;
LT : '<' ;
GT : '>' ;
ASSIGN : '=' ;
PLUS : '+' ;
MINUS : '-' ;
STAR : '*' ;
SLASH : '/' ;
PERCENT : '%' ;
AMP : '&' ;
PIPE : '|' ;
CARET : '^' ;
TILDE : '~' ;
NOT : '!' ;

ID : '$'? [A-Za-z_] [A-Za-z0-9_]* ;
INT : [0-9]+ ;
HEX : '0' [xX] [0-9A-Fa-f]+ ;
FLOAT : [0-9]+ '.' [0-9]+ ([eE] [+\-]? [0-9]+)? ;
BAD_NUMBER : [0-9] [A-Za-z0-9_]* ('.' [0-9] [A-Za-z0-9_]*)? ;

// One line, no escapes: a backslash is itself.
STRING : '"' ~["\r\n]* '"' ;
OPEN_STRING : '"' ~["\r\n]* ;

COMMENT : '//' ~[\r\n]* -> skip ;
SPACE : [ \t\r\n\f\u000B]+ -> skip ;

// Hidden from the parser, which goes on as if it were not there, but reported.
// \u007F stands for every byte of a multi-byte character.
STRAY : ('\u007F'+ | .) -> channel(HIDDEN) ;
