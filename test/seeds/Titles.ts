/**
 * The titles of the tests in a source file, read without running it: a fast check that a test which a promise names has
 * not been renamed or removed. `npm run conformance` runs them.
 */

/** A text right behind an opening bracket: the title of a test, or of a row in a table of tests. */
const opened = /[([]\s*(["'`])((?:\\.|(?!\1)[^\n])*)\1/g

/** A title with parts that are known only when the test is made. */
const isTemplate = (text: string): boolean => /\$\{|\$\w|%[sdi]/.test(text)

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)

const patternOf = (template: string): RegExp | undefined => {
  const parts = template.split(/\$\{[^}]*\}|\$[\w.]+|%[sdi]/)
  // With too few fixed words a template matches anything.
  if (parts.join("").trim().length < 6) return undefined
  return new RegExp(`^${parts.map(escaped).join(".+")}$`)
}

/** True when the text at this place is the title of a group of tests. */
const isGroup = (source: string, at: number): boolean => /\bdescribe[\w.]*\(\s*$/.test(source.slice(0, at))

const isThere = (source: string, quoted: string): boolean => {
  for (let at = source.indexOf(quoted); at >= 0; at = source.indexOf(quoted, at + 1)) {
    if (!isGroup(source, at)) return true
  }
  return false
}

/** True when the source has a test with this title, in one piece or as a template. */
export const has = (source: string, title: string): boolean => {
  const last = title.split(" > ").at(-1) ?? ""
  for (const quote of ['"', "'", "`"]) {
    if (isThere(source, quote + last.replaceAll(quote, `\\${quote}`) + quote)) return true
  }
  for (const [, , text = ""] of source.matchAll(opened)) {
    if (isTemplate(text) && patternOf(text.replaceAll("%%", "%"))?.test(last) === true) return true
  }
  return false
}
