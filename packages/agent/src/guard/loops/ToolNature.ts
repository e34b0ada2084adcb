/**
 * What kind of tool a call is of, by its name, and for shells and databases by the command: how much patience it is due.
 *
 * `read` looks and changes nothing. `act` changes something, or may. `thought` writes down what the model thinks,
 * `pause` lets time pass: neither of them is progress. A `poke` (a click, a key) shows what it did only in what is seen
 * afterwards. `advance` goes on by itself, so that the same call brings the next thing: a page, a message of a queue, a
 * step of a debugger. Pure, but for what it keeps of names that recur.
 *
 * **What it does not do.** It does not know your tools: name the nature of one in the detector's options.
 */
import { Predicate } from "effect"
import * as Comment from "./Comment.ts"
import * as Fields from "./Field.ts"
import * as Hash from "./Hash.ts"
import { isOwn } from "./Scan.ts"

export type ToolNature = "read" | "act" | "poke" | "thought" | "pause" | "advance"

const table = (nature: ToolNature, words: string): ReadonlyArray<readonly [string, ToolNature]> =>
  words.split(" ").map((word) => [word, nature])

/** By the first word of a name that is here. */
const byWord: ReadonlyMap<string, ToolNature> = new Map([
  ...table(
    "read",
    "read get list ls grep rg glob search find view cat show describe fetch query lookup inspect status stat head tail " +
      "diff log logs info explain browse screenshot snapshot check poll scan tree count which retrieve load preview " +
      "monitor watch select ask recall blame pwd whoami env dig nslookup whois ping traceroute ripgrep egrep fgrep zgrep ag ack"
  ),
  // The same in the languages that tools are named in most.
  ...table(
    "read",
    "suche suchen finde finden lesen lies anzeigen zeige abrufen abfragen abfrage holen liste auflisten pruefen " +
      "buscar busca busqueda leer listar consultar consulta obtener mostrar verificar ler obter procurar " +
      "chercher rechercher recherche lire lister afficher consulter obtenir verifier " +
      "cerca cercare ricerca leggi leggere elenca elenco mostra ottieni verifica zoek zoeken lees lezen"
  ),
  ...table("pause", "warten warte esperar attendre attendi wachten"),
  ...table(
    "act",
    "edit write create delete update set run exec execute post put patch send type fill insert replace apply " +
      "input enter submit remove move rename commit push deploy install start stop kill add upload save modify"
  ),
  ...table("poke", "click tap hover press drag swipe mouse key navigate goto visit"),
  ...table("thought", "think thought thinking plan reflect reason todo note"),
  ...table("pause", "sleep wait delay pause"),
  ...table("advance", "next pop dequeue receive consume step advance scroll continue forward")
])

const shells = new Set([
  "bash",
  "sh",
  "shell",
  "terminal",
  "powershell",
  "zsh",
  "command",
  "cmd",
  "console",
  "cli"
])
/** A tool that takes a debugger's commands. */
const debuggers = /debug|[pg]db|lldb|dbg/
/** What a shell has said, and not the shell. */
const outputs = new Set(["output", "logs", "status"])
const programs = new Set(
  "kubectl oc git gh docker podman aws gcloud az helm terraform systemctl argocd flux nomad airflow".split(
    " "
  )
)
const databases = new Set(
  "sql database db postgres postgresql pg psql mysql mariadb sqlite duckdb bigquery snowflake redshift clickhouse".split(
    " "
  )
)

/** Verbs of programs that change something: what stands behind them is a name, if it looks like another verb, too. */
const writes =
  "delete|create|sync|run|deploy|update|set|start|stop|apply|patch|restart|scale|rollback|remove|add|import|reset|write|submit|upgrade|install"
/** Of a shell's command: those that only look. What comes after a pipe looks at it. */
const lookers = [
  String.raw`ls|cat|echo|true|cd|sleep|z?grep|zcat|rg|find|head|tail|less|wc|ps|df|du|pwd|which|type|env|date`,
  String.raw`uptime|free|stat|file|tree|diff|jq|whoami|dig|nslookup|host|ping|whois`,
  String.raw`curl (?!.*(?: -X| -d|--data|--request| -F| -T))`,
  String.raw`git (?:status|log|diff|show|branch|blame|rev-parse|remote|ls-files)`,
  String.raw`(?:docker|podman)(?:[- ]compose)? (?:ps|logs|images|inspect)`,
  String.raw`kubectl (?:-[\w-]+[ =][\w./-]+ ){0,3}(?:get|describe|logs|top)`,
  String.raw`gh (?:run|pr|issue|workflow|release) (?:view|list|status|checks)`,
  String.raw`systemctl (?:status|is-active|list)`,
  String.raw`journalctl`,
  String.raw`aws \S+ (?:describe|get|list)`,
  String.raw`terraform (?:show|state list)`,
  String.raw`helm (?:status|list|history)`,
  String.raw`(?:argocd|flux|gcloud|az|oc|flyctl|nomad|istioctl|velero|airflow|databricks)(?: (?!${writes})[\w-]+){0,3} (?:get|list|show|describe|status|logs|diff|history|info)(?![\w-])`,
  String.raw`squeue|sacct|sinfo|scontrol show`,
  String.raw`nvidia-smi(?! -)`,
  String.raw`lsof|netstat|ss`,
  String.raw`ip (?:a|addr|route|link)(?! (?:set|add|del|flush|change|replace))`,
  String.raw`id|groups|lsblk`,
  String.raw`dmesg(?! -[CcDE])`,
  String.raw`(?:md5|sha1|sha256|sha512)sum`,
  String.raw`getent|printenv`,
  String.raw`npm (?:ls|list|view|outdated)`,
  String.raw`pip3? (?:list|show|freeze)`,
  String.raw`ros(?:node|topic|2 node|2 topic) (?:list|info|hz|echo)`,
  String.raw`crontab -l`
]
const looking = new RegExp(`^(?:${lookers.join("|")})\\b(?!.*>)`)
/** Texts in it, and what it says of errors: they are no commands and write nothing. */
const quoted = /'[^']*'|"[^"]*"|[12&]?>\s*(?:\/dev\/null|&[12])/g
const joined = /&&|\|\||[;\n]/
const pausing = /^sleep [\w.]+$/
const sleeping = /^(?:cd [^;&|]+(?:&&|;)\s*)?sleep [\w.]+\s*(?:&&|;|$)/
/** Of a debugger's commands: those that go on. */
const stepping =
  /^(?:n|s|c|r|ni|si|next|nexti|step|stepi|cont|continue|finish|until|advance|return|run|jump|thread step-\w+|process continue)(?:\s|$)/i
const asking = /^\s*(?:select|show|explain|describe|desc|with|pragma)\b/i
/** What stands before it only says what is written: `with old as (select …) delete …` */
const writing = /^\s*with\b[^]*[()]\s*(?:update|delete|insert|merge)\b/i
const changing = /^\s*(?:with\b[^]*[()]\s*)?(?:update|delete)\b/i
/** So many of the rows: the same write brings the next ones. */
const some = /\b(?:limit|top|first)\b[\s(]+\d/i

/** Of a call. */
export const of = (tool: string, args: unknown): ToolNature => {
  const { kind } = factsOf(tool)
  if (kind === "shell") return natureOfCommand(textOf(args))
  // A tool that is one program takes what stands behind its name.
  if (kind === "program") return natureOfCommand(`${tool} ${textOf(args)}`)
  if (kind === "debugger") return goesOn(args) ? "advance" : "read"
  // "run", if it is given a command.
  if (kind === "act" && runs(tool, args))
    return (Predicate.isObject(args) ? natureOfAction(args) : undefined) ?? natureOfCommand(textOf(args))
  if (kind === "database" || (kind !== "thought" && hasQuery(tool, args))) return natureOfQuery(queryOf(args))
  if (kind === "pause" && !onlyWaits(args)) return "read"
  const method = factsOf(tool).mayRequest ? methodOf(args) : undefined
  if (method !== undefined) return method
  return (Predicate.isObject(args) ? natureOfAction(args) : undefined) ?? kind
}

/** Whether it is a request over HTTP: what it writes is no file. */
export const isRequest = (tool: string, args: unknown): boolean =>
  factsOf(tool).mayRequest && methodOf(args) !== undefined

/** What a request does, by the method of HTTP that it is given. */
const methodOf = (args: unknown): ToolNature | undefined =>
  Predicate.isObject(args) && typeof args["method"] === "string" && isAddressed(args)
    ? methods.get(args["method"].toUpperCase())
    : undefined

/** Whether it says where a request goes. */
const isAddressed = ({ url, uri, endpoint, path }: Readonly<Record<PropertyKey, unknown>>): boolean =>
  typeof (url ?? uri ?? endpoint) === "string" || (typeof path === "string" && path.startsWith("/"))

const methods: ReadonlyMap<string, ToolNature> = new Map([
  ...table("read", "GET HEAD OPTIONS"),
  ...table("act", "POST PUT PATCH DELETE")
])

/** It is told how long, why and where, but nothing about what it waits for. */
const onlyWaits = (args: unknown): boolean => {
  if (!Predicate.isObject(args)) return true
  const names = Object.keys(args)
  return (
    names.length <= maxNames &&
    names.every((name) => {
      const { isProse, isRemark, mayBeRandom, isDuration } = Fields.of(name)
      return isProse || isRemark || mayBeRandom || isDuration
    })
  )
}

/** What has more fields is no call to wait. */
const maxNames = 20

/** Without what only is written in it. */
const queryOf = (args: unknown): string => Comment.without(textOf(args)).replaceAll(/'[^']*'/g, "''")

/** What a tool does with SQL that it does not run. */
const examining = /(?:^|[_-])(?:explain|validate|lint|format|parse)(?:$|[_-])/i

/** Whatever the tool is called: it is given SQL. */
const hasQuery = (tool: string, args: unknown): boolean =>
  Predicate.isObject(args) && "sql" in args && typeof args.sql === "string" && !examining.test(tool)

const natureOfQuery = (query: string): ToolNature =>
  asking.test(query) && !writing.test(query)
    ? "read"
    : changing.test(query) && some.test(query)
      ? "advance"
      : "act"

/** Whether a tool that carries out something is given a command of a shell. */
const runs = (tool: string, args: unknown): boolean => {
  if (!factsOf(tool).evaluates || !Predicate.isObject(args)) return false
  const { cmd, command = cmd }: { cmd?: unknown; command?: unknown } = args
  return typeof command === "string" || Array.isArray(command)
}

/** Of a tool of many actions, `computer` or a text editor: what it is asked to do. */
const natureOfAction = (args: object): ToolNature | undefined => {
  const { action, command = action }: { action?: unknown; command?: unknown } = args
  if (typeof command !== "string" || !/^\w{1,30}$/.test(command)) return undefined
  const { kind } = factsOf(command)
  return kind === "read" || kind === "poke" || kind === "thought" || kind === "pause" || kind === "advance"
    ? kind
    : undefined
}

/** Whether it waits, by its name. */
export const waits = (tool: string): boolean => factsOf(tool).kind === "pause"

/** What a shell is given; "" for what is none. */
export const commandFor = (tool: string, args: unknown): string =>
  factsOf(tool).kind === "shell" || runs(tool, args) ? textOf(args) : ""

/** Whether a command lets time pass before it does what it does. */
export const pausesFirst = (command: string): boolean => command.includes("sleep") && sleeping.test(command)

/** Commands are not kept, though they recur: they may hold secrets. */
const natureOfCommand = (command: string): ToolNature =>
  command.startsWith("sleep") && pausing.test(command) ? "pause" : looks(command) ? "read" : "act"

/** Each of its commands only looks. */
const looks = (command: string): boolean => {
  // Most are one.
  if (!looking.test(command) && !command.includes(">")) return false
  return command
    .replaceAll(quoted, "''")
    .split(joined)
    .every((part) => part.trim() === "" || looking.test(part.trim()))
}

const evaluators = new Set(
  "execute exec run eval evaluate python jupyter notebook repl script query".split(" ")
)

/** Whether a command looks for something in files. */
export const searches = (command: string): boolean => searching.test(command)

const searching = /^(?:cd [^;&|]+&&\s*)?(?:git )?(?:[zp]?grep|rg|ag|ack)\s/

/** Whether it carries out what it is given in a language: what it answers is what one wanted to know. */
export const evaluates = (tool: string): boolean => factsOf(tool).evaluates

/** What tools of one thing have in common in their names: `browser` of `browser_click`, `github` of `mcp__github__x`. */
export const family = (tool: string): string => factsOf(tool).family

/** A number for its name. */
export const idOf = (tool: string): number => factsOf(tool).id

/** Whether the verb in its name says that it only looks: whatever it is given then, it writes nothing. */
export const onlyLooks = (tool: string): boolean => factsOf(tool).onlyLooks

/** Whether it adds to what is there, and replaces nothing. */
export const adds = (tool: string): boolean => factsOf(tool).adds

const adding = /append|insert/i

const requests = new Set(
  "http https request requests fetch api rest call curl url endpoint web send invoke".split(" ")
)

type Kind = ToolNature | "shell" | "program" | "database" | "debugger"

/** What the name of a tool says of it. */
interface Facts {
  readonly id: number
  readonly kind: Kind
  readonly evaluates: boolean
  readonly family: string
  readonly adds: boolean
  readonly onlyLooks: boolean
  /** It may take a method of HTTP: its name says so, or nothing of what it does. */
  readonly mayRequest: boolean
}

/** A program has few tools: what was found out about their names is kept. */
const known = new Map<string, Facts>()
const maxKnown = 1_000

const factsOf = (tool: string): Facts => {
  // One call asks several times.
  if (lastFacts !== undefined && lastTool === tool) return lastFacts
  lastFacts = factsFor(tool)
  lastTool = tool
  return lastFacts
}

let lastTool = ""
let lastFacts: Facts | undefined

const factsFor = (tool: string): Facts => {
  const before = known.get(tool)
  if (before !== undefined) return before
  const words = wordsOf(tool)
  const kind = kindOf(words)
  const verb = verbOf(words)
  const named = words.filter((word) => word !== "" && word !== "mcp")
  const facts = {
    id: Hash.ofText(tool),
    kind,
    evaluates:
      kind === "shell" ||
      kind === "program" ||
      kind === "database" ||
      words.some((word) => evaluators.has(word)),
    family: named.length > 1 ? (named[0] ?? "") : "",
    adds: adding.test(tool),
    onlyLooks: kind === "read" && verb === "read",
    mayRequest: verb === undefined || words.some((word) => requests.has(word))
  }
  if (known.size >= maxKnown) known.clear()
  if (tool.length <= maxName) known.set(tool, facts)
  return facts
}

const kindOf = (words: ReadonlyArray<string>): Kind => {
  if (words.some((word) => outputs.has(word))) return "read"
  if (isDebugger(words)) return "debugger"
  if (words.some((word) => shells.has(word)) || (words.length === 1 && words[0] === "ssh")) return "shell"
  if (words.length === 1 && words.every((word) => programs.has(word))) return "program"
  return words.some((word) => databases.has(word)) ? "database" : byName(words)
}

const isDebugger = (words: ReadonlyArray<string>): boolean =>
  words.some((word) => debuggers.test(word)) && words.some((word) => shells.has(word) || word === "evaluate")

/** What the first verb says. */
const verbOf = (words: ReadonlyArray<string>): ToolNature | undefined => {
  const verb = words.find((word) => byWord.has(word))
  return verb === undefined ? undefined : byWord.get(verb)
}

const planning = new Set("update write rewrite save".split(" "))
const thoughts = new Set("think thinking thought todo todos".split(" "))

const byName = (words: ReadonlyArray<string>): ToolNature => {
  if (
    words.some((word) => thoughts.has(word) || word.endsWith("thinking")) ||
    (words.length === 2 && words[1] === "plan" && planning.has(words[0] ?? ""))
  )
    return "thought"
  // "search_replace"
  if (words.includes("replace")) return "act"
  const verb = verbOf(words)
  if (verb !== undefined) return verb
  // A name without a verb names what is looked at: one thing, or several.
  if (words.some((word) => doing.has(word))) return "act"
  return words.some((word) => things.has(word)) || severalThings.test(words.at(-1) ?? "") ? "read" : "act"
}

const things = new Set(
  "latest recent results info details detail content contents overview metrics metadata history summary inbox mailbox weather forecast state thread".split(
    " "
  )
)

/** Verbs beside which another may stand: `build_status` is a look, `build_targets` is none. */
const doing = new Set(
  (
    "approve archive assign batch block book build bulk buy call cancel change charge clean clear close compile " +
    "convert copy disable drop dump enable encrypt export fix format generate grant import invite invoke lock mark " +
    "merge migrate notify open order pay print process publish purge rebuild refund reject reload replay reset " +
    "resolve restart restore retry revoke rewrite rotate schedule share sign sort split spawn subscribe swap sync " +
    "tag test tests toggle train transfer trigger unlock upgrade validate wipe edits"
  ).split(" ")
)

const severalThings = /^[a-z]{3,}[^s]s$/

/** Characters of a name that are read. */
const maxName = 100

const wordsOf = (tool: string): ReadonlyArray<string> =>
  tool
    .slice(0, maxName)
    .replaceAll(/([a-z\d])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z\d]+/)

/** Whether one of the arguments is a debugger's command that goes on. */
const goesOn = (args: unknown): boolean =>
  typeof args === "string"
    ? stepping.test(args)
    : Predicate.isObject(args) &&
      Object.values(args).some((text) => typeof text === "string" && stepping.test(text))

/** The command is the text of that name, or else the first one. */
const textOf = (args: unknown): string => {
  if (typeof args === "string") return clipped(args)
  if (!Predicate.isObject(args)) return ""
  let first = ""
  for (const name in args) {
    if (!isOwn.call(args, name)) continue
    const isCommand = Fields.of(name).isProgram || name === "args" || name === "argv"
    const value = args[name]
    const text = isCommand && Array.isArray(value) ? commandOf(value) : value
    if (typeof text !== "string") continue
    if (isCommand) return clipped(text)
    if (first === "") first = clipped(text)
  }
  return first
}

/** Characters of a command that are read. */
const maxCommand = 500

const clipped = (text: string): string => (text.length > maxCommand ? text.slice(0, maxCommand) : text).trim()

/** Of its words: of `bash -c …` what the shell is given. */
const commandOf = (words: ReadonlyArray<unknown>): string => {
  const texts = words.slice(0, maxCommand).filter((word) => typeof word === "string")
  const [program = "", ...rest] = texts
  if (!shells.has(program.slice(program.lastIndexOf("/") + 1))) return texts.join(" ")
  const given = rest.findIndex((word) => /^-\w*c$/.test(word))
  return rest.slice(given + 1).join(" ")
}
