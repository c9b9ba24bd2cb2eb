"""Sphinx's settings. Nothing here names another host: what is read is in the folder."""

from probe import __version__

project = "phasewatt"
author = "the authors of phasewatt"
project_copyright = author
release = version = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
myst_heading_anchors = 4
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"phasewatt {__version__}"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
