/**
 * What is said before a program: comments at its beginning, in SQL, in a shell, in a notebook. Pure.
 */

/** `-- run 7`, `# the same again`, `// so`: a line; or what is between `/*` and its end. With the white space behind. */
const comment = /^(?:(?:--|#|\/\/)[ \t][^\n]*(?:\n|$)|\/\*[^*]{0,500}\*\/)\s*/

/** A text without the comments that it begins with; as it is, if there is nothing else. */
export const without = (text: string): string => {
  let rest = text
  for (let said = comment.exec(rest); said !== null; said = comment.exec(rest))
    rest = rest.slice(said[0].length)
  return rest === "" ? text : rest
}

/** Whether a text may begin with one: `-`, `#`, `/`. */
export const mayBegin = (first: number): boolean => first === 45 || first === 35 || first === 47
