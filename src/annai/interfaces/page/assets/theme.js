// Before anything is drawn: the theme that was chosen here before.
const theme = localStorage.getItem("annai_theme");
if (theme) document.documentElement.dataset.theme = theme;
