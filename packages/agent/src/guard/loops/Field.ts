/**
 * What the name of a field says of its value: that it is an id, a question, what a command ended with. Pure, but for
 * what it keeps of names that recur.
 */
import * as Hash from "./Hash.ts"
import * as Meaning from "./Meaning.ts"
import * as Volatile from "./Volatile.ts"

/** The name of a field, and what it says of its value. */
export interface Field {
  readonly hash: number
  readonly volatile: Volatile.Where | undefined
  readonly isCursor: boolean
  readonly isTrouble: boolean
  /** It lists what is wrong: that there is none is good. */
  readonly isComplaint: boolean
  readonly isSuccess: boolean
  readonly isDigest: boolean
  /** It asks in words of one's own. */
  readonly isQuestion: boolean
  /** It names a part of a page, by what the page happens to call it. */
  readonly isHandle: boolean
  /** What somebody is told: it says nothing of what the call is about. */
  readonly isProse: boolean
  /** A UUID or a number like one is of the caller's making there, if it is not all that is named. */
  readonly mayBeRandom: boolean
  /** It is written in a language: a command, a query, code. */
  readonly isProgram: boolean
  /** It says how long, or by whom: nothing about what is waited for. */
  readonly isDuration: boolean
  /** How long to wait for something before it is looked at. */
  readonly isWait: boolean
  /** It names a run of something: beside SQL, one of the caller's making. */
  readonly isRun: boolean
  /** What the model says about the call. */
  readonly isRemark: boolean
  /** Beside a command, what the model says about the call. */
  readonly isCaption: boolean
  /** It names a thing. */
  readonly isId: boolean
  /** What a command ended with: 0 if it went well. */
  readonly isExit: boolean
  /** How many things were taken out of the way: the same again takes others. */
  readonly isTaken: boolean
  /** It holds what is left of a rate: that says nothing. */
  readonly isRate: boolean
  /** How well one of several things answers what was asked. */
  readonly isScore: boolean
  /** Beside others it may say nothing. */
  readonly mayBeSkipped: boolean
  /** What it is to a call that edits a file. */
  readonly role: Role | undefined
}

/** Of what is in no field. */
export const none: Field = {
  hash: 0,
  volatile: undefined,
  isCursor: false,
  isTrouble: false,
  isComplaint: false,
  isSuccess: false,
  isDigest: false,
  isQuestion: false,
  isHandle: false,
  isProse: false,
  mayBeRandom: false,
  isProgram: false,
  isDuration: false,
  isWait: false,
  isRun: false,
  isRemark: false,
  isCaption: false,
  isId: false,
  isExit: false,
  isTaken: false,
  isRate: false,
  isScore: false,
  mayBeSkipped: false,
  role: undefined
}

export type Role = "path" | "before" | "after" | "content" | "part" | "spot" | "place" | "mode"

const roles: ReadonlyMap<string, Role> = new Map([
  ...roleOf(
    "path",
    "path file filename filepath targetfile relativepath relativeworkspacepath uri notebookpath docid documentid pageid noteid"
  ),
  ...roleOf("before", "old oldstr oldstring oldtext search find before original target targetcontent"),
  ...roleOf(
    "after",
    "new newstr newstring newtext replace replacement replacementcontent after updated newcode with"
  ),
  ...roleOf(
    "content",
    "content contents filetext text newcontent code body data patch diff input newsource " +
      "edits changes chunks replacements replacementchunks"
  ),
  ...roleOf(
    "spot",
    "insert insertline insertafter insertbefore insertafterline insertbeforeline insertat afterline beforeline atline " +
      "position anchor"
  ),
  ...roleOf(
    "place",
    "line lines linenumber startline startlineoneindexed range cell cellid cellindex cellnumber"
  ),
  ...roleOf("part", "codeedit snippet"),
  ...roleOf("mode", "mode operation op action command")
])

function roleOf(role: Role, names: string): ReadonlyArray<readonly [string, Role]> {
  return names.split(" ").map((name) => [name, role])
}

const questions =
  /^(?:q|query|queries|question|search|search_?(?:term|text|query)|term|keywords?|pattern|regex|prompt|frage|such(?:e|text|begriff|wort)|stichw[oö]rter?|begriff|requ[eê]te|recherche|mots_?cl[eé]s|consulta|b[uú]squeda|pregunta|t[eé]rmino|texto|ricerca|domanda|parole_?chiave|zoekterm|pergunta|busca)$/i

const handles = /^(?:ref|uid|selector|xpath|coordinates?|element_?id)$/i
const prose = /^(?:text|note|notes|message|comment|body|reason|description|content|title|subject|summary)$/i
const ids = /^(?:id|key|uuid|guid|number)$|(?:_id|[a-z]Id)$/
const remarks = /^(?:explanation|thoughts?|purpose|rationale|why|intent|reasoning)$/i
const captions = /^(?:description|reason|comment)$/i
const randoms = /^(?:(?:session|conversation)_?(?:id|uuid|token)?|client_?ref|sig|signature|hmac)$/i
const programs = /^(?:command|cmd|script|code|source|input|query|sql|statement)$/i
const durations =
  /^(?:s|for|until|interval|amount|value|unit|number|(?:agent|tab|page|window|browser|label)(?:_?[iI]d)?)$|(?:^|_|-)(?:time|duration|delay|wait|sleep|sec|second|min|minute|hour|ms|millis|millisecond)s?$|[a-z](?:Time|Duration|Delay|Wait|Sleep|Sec|Second|Min|Minute|Hour|Ms|Milli|Millisecond)s?$/
const complaints =
  /(?:^|_)(?:findings|conflicts|issues|warnings|violations|vulnerabilities|problems|duplicates|alerts|blockers|diffs?|differences|changes|drift|missing)$/i
const waits =
  /^(?:long_?poll_?)?wait(?:_?(?:s|ms|secs?|seconds|millis|milliseconds|time(?:_?seconds)?|for_?(?:s|ms|seconds)))?$/i
const runs = /^(?:job|query|run|execution|statement)_?(?:id|name|label)$/i
const exits = /^(?:exit|exit_?code|exit_?status|return_?code|rc)$/i

const takings = /^(?:deleted|removed|purged|drained|acked)(?:_?(?:count|rows|docs))?$/i
const rates = /^_rate$|^_?rate_?limits?$/i
const scores = /^(?:_?score|relevance|similarity)$/i

/** `errors` of `userErrors` and `user_errors`. */
const lastPart = (name: string): string => /[A-Z]?[a-z]+$/.exec(name)?.[0] ?? name

/** Names of fields recur: what was found out about the last ones is kept. */
const fields = new Map<string, Field>()
const maxFields = 1_000

export const of = (name: string): Field => {
  const known = fields.get(name)
  if (known !== undefined) return known
  const hash = Hash.ofText(name)
  return kept(name, fieldOf(name.length <= maxName ? name : name.slice(-maxName), hash))
}

/** Characters of a name that are read, the last ones. */
const maxName = 100

const kept = (name: string, field: Field): Field => {
  if (fields.size >= maxFields) fields.clear()
  if (name.length <= maxName) fields.set(name, field)
  return field
}

const fieldOf = (name: string, hash: number): Field => {
  const meaning = Meaning.ofHash(Meaning.of(name)) | Meaning.ofHash(Meaning.of(lastPart(name)))
  const isHandle = handles.test(name)
  const mayBeRandom = randoms.test(name)
  const isRun = runs.test(name)
  const isRemark = remarks.test(name)
  const isCaption = captions.test(name)
  return {
    hash,
    volatile: Volatile.whereNamed(name),
    isCursor: Volatile.isCursorKey(name),
    isComplaint: complaints.test(name),
    isTrouble: (meaning & Meaning.trouble) !== 0,
    isSuccess: (meaning & Meaning.success) !== 0,
    isDigest: (meaning & Meaning.digest) !== 0,
    isQuestion: questions.test(name),
    isHandle,
    isProse: prose.test(name),
    mayBeRandom,
    isProgram: programs.test(name),
    isDuration: durations.test(name),
    isWait: waits.test(name),
    isRun,
    isRemark,
    isCaption,
    isId: ids.test(name),
    isExit: exits.test(name),
    isTaken: takings.test(name),
    isRate: rates.test(name),
    isScore: scores.test(name),
    mayBeSkipped: isHandle || mayBeRandom || isRun || isRemark || isCaption,
    // Of a longer name this is the end.
    role: name.length < maxName ? roles.get(name.toLowerCase().replaceAll(/[_-]/g, "")) : undefined
  }
}
